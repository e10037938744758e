/*
 * Which servers of a table one shard is enough for (specs/design/epochs.md, Rates).
 *
 * A server starts a shard for each 10 Gbit/s that its interface says. Where it is found to carry no
 * more than one shard can, the others only cut the same bytes into more messages. So one is tried
 * alone, on the program's own operations, and kept where these do not take longer; where a server
 * carries much more than when that was settled, all are tried again, and kept where operations take
 * less. A trial that is lost is not repeated soon. Where a link is found that one shard carries on
 * any processor, it is alone at once, and judged with the rates that were found (rate_trial.h).
 *
 * One thread uses it: the owner of the progress engine. Servers are sets of bits, by their numbers.
 * Times are smd_clock_ns().
 */
#ifndef SMD_LIBSUMMAND_SHARD_CHOICE_H
#define SMD_LIBSUMMAND_SHARD_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/libsummand/config.h"
#include "worker/libsummand/operation_times.h"

struct smd_shard_choice {
	uint64_t several; /* servers that have more than one shard; */
	uint64_t single;  /* of which one alone is in use; */
	uint64_t settled; /* should be, by the last trial that was won: else one is on; */
	uint64_t wanted;  /* and shall be from the next table on */
	bool doubted;     /* a trial of one alone was lost */
	double mbps[SMD_SERVERS_MAX]; /* that each was last found to carry; 0: not yet; */
	double won[SMD_SERVERS_MAX];  /* and when it won the trial for its present use; 0: never */
	struct smd_operation_times times;
	uint64_t next_ns;  /* no trial before */
	uint64_t pause_ns; /* after the next one that is lost */
};

void smd_shard_choice_begin(
	struct smd_shard_choice *choice, uint64_t several, uint64_t single, uint64_t now_ns);

/* The server was found to carry so many Mbit/s, through the shards that are in use. */
void smd_shard_choice_found(struct smd_shard_choice *choice, unsigned server, double mbps);

/* Servers with several in use, of which one surely carries what was found. None where a trial of one
 * was lost. */
uint64_t smd_shard_choice_sure(const struct smd_shard_choice *choice);

/* Of these one alone is in use from now on, as if a trial were won; or are all again, as before. */
void smd_shard_choice_take(struct smd_shard_choice *choice, uint64_t servers, bool alone);

/* Operations, as of smd_operation_times_took(). Whether that counts. */
bool smd_shard_choice_took(struct smd_shard_choice *choice, uint64_t bytes, uint64_t ns);

static inline bool smd_shard_choice_is_on_trial(const struct smd_shard_choice *choice)
{
	return choice->single != choice->settled;
}

/* A trial will begin when there are enough times. */
static inline bool smd_shard_choice_is_due(const struct smd_shard_choice *choice, uint64_t now_ns)
{
	return choice->wanted != choice->settled && now_ns >= choice->next_ns;
}

/* Whether a trial may begin, or the one that is on is over, and other shards should be used:
 * choice->wanted. */
bool smd_shard_choice_want(struct smd_shard_choice *choice, uint64_t now_ns);

/* Those that were wanted are in use from now on. */
void smd_shard_choice_applied(struct smd_shard_choice *choice);

/* What was measured since does not count: something else has changed. */
void smd_shard_choice_forget(struct smd_shard_choice *choice);

#endif
