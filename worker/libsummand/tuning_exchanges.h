/*
 * When exchanges (exchange_choice.h) may be tried, beside all else that is tuned: trials of either
 * say nothing of the other (specs/design/exchange.md, Which operations). All on the owner.
 */
#ifndef SMD_LIBSUMMAND_TUNING_EXCHANGES_H
#define SMD_LIBSUMMAND_TUNING_EXCHANGES_H

#include "worker/libsummand/tuning.h"

/* Whether ranks should have met, because exchanges are to be tried. */
bool smd_tuning_should_meet(struct smd_tuning *tuning, uint64_t now_ns);

/* Operations of so many bytes ranks shall do among themselves, by the table that is wanted. */
uint32_t smd_tuning_exchange_bytes(const struct smd_tuning *tuning);

/* A trial of shards or of chunks is on. */
bool smd_tuning_is_on_trial(const struct smd_tuning *tuning);

/* What begins now is for servers whatever the table says, and so is the span. */
void smd_tuning_serves(struct smd_tuning *tuning);

/* A span has ended, and may say something as a whole. Not of servers where rates were found by
 * which it takes long: these, which all links bring bytes to at once, are as fast as links there,
 * and who sums for the others is not. */
void smd_tuning_take_exchanges(struct smd_tuning *tuning, bool whole, uint64_t now_ns);

/* What ranks shall do among themselves with the table that is asked for, of servers: a trial that
 * is on would compare with what is no more, and what has won may be for servers by new rates. */
uint32_t smd_tuning_settle_exchanges(const struct smd_tuning *tuning);

/* What ranks do among themselves now says nothing of servers, so these trials wait for nothing
 * else, and nothing else begins beside them while they get operations. */
bool smd_tuning_exchanges_go_on(const struct smd_tuning *tuning);

/* A trial of them will begin before others do: when ranks have met, or rates are known. */
bool smd_tuning_exchanges_are_next(const struct smd_tuning *tuning, uint64_t now_ns);

/* Whether one begins. */
bool smd_tuning_exchanges_want(struct smd_tuning *tuning, uint64_t now_ns);

#endif
