/* Says when exchanges may be tried, beside all else that is tuned. */
#include "worker/libsummand/tuning_exchanges.h"

#include "reduction_server/base/clock.h"
#include "worker/libsummand/tuning_table.h"

#define SHORT_US     250u    /* on the links: what else an operation costs is more than its bytes */
#define FAR          4.0     /* so much longer than rates say: these are off, and will be found, */
#define COMING_TIMES 24u     /* or else before so many times of the size are known */
#define MEET_NS      300000u /* of an operation: ranks meet while few of these are timed */
#define TABLES_LEFT  8u      /* by trials, for what servers need */
#define OPEN_NS      (2 * SMD_SECOND_NS) /* that a trial of shards or chunks has counted nothing */

uint32_t smd_tuning_exchange_bytes(const struct smd_tuning *tuning)
{
	return tuning->exchange.wanted;
}

bool smd_tuning_is_on_trial(const struct smd_tuning *tuning)
{
	return smd_chunk_search_is_on_trial(&tuning->search) ||
	       smd_shard_choice_is_on_trial(&tuning->choice);
}

/* What an operation takes on links of servers that carry so many Mbit/s together. */
static double link_us(const struct smd_tuning *tuning, uint64_t bytes, double mbps)
{
	return 8.0 * tuning->rate.nranks * (double)bytes / mbps;
}

/* The rates add up to so many Mbit/s. */
static bool is_for_servers(const struct smd_tuning *tuning, uint64_t bytes, double mbps)
{
	return tuning->rate.links_decide && !tuning->exchange.always &&
	       link_us(tuning, bytes, mbps) > SHORT_US;
}

/* Whether its operations were of one size, and all ranks' or all servers'. What links decide is
 * asked of all of them: together they keep these busy. */
static bool span_counts(const struct smd_tuning *tuning, bool together)
{
	if (smd_exchange_kind(tuning->least, together) !=
		smd_exchange_kind(tuning->most, together)) {
		return false;
	}
	return tuning->exchanged
		       ? tuning->exchanged == tuning->operations
		       : !is_for_servers(tuning, tuning->ended, smd_tuning_sum_weights(tuning));
}

void smd_tuning_serves(struct smd_tuning *tuning)
{
	tuning->least = 0;
}

void smd_tuning_take_exchanges(struct smd_tuning *tuning, bool whole, uint64_t now_ns)
{
	bool together = tuning->together > 1;

	tuning->fresh |= smd_exchange_choice_missed(&tuning->exchange, tuning->operations, now_ns);
	if (whole && span_counts(tuning, together)) {
		tuning->fresh |= smd_exchange_choice_took(&tuning->exchange,
			smd_exchange_kind(tuning->most, together), tuning->ended,
			tuning->exchanged > 0, now_ns - tuning->began_ns, now_ns);
	}
}

uint32_t smd_tuning_settle_exchanges(const struct smd_tuning *tuning)
{
	uint32_t bytes = tuning->exchange.possible ? tuning->exchange.settled : 0;
	double mbps = 0;

	for (unsigned s = 0; s < tuning->nshards; s++) {
		mbps += tuning->weights[s];
	}
	while (!tuning->back && bytes && is_for_servers(tuning, bytes, mbps)) {
		bytes /= 2;
	}
	return bytes;
}

/* Others will be known soon, and chunks of these are what the present times are of. */
static bool rates_are_coming(struct smd_tuning *tuning, uint64_t now_ns)
{
	double ns = smd_exchange_choice_served_ns(&tuning->exchange);
	unsigned kind = tuning->exchange.kind;
	double us = link_us(tuning, smd_exchange_kind_bytes(kind), smd_tuning_sum_weights(tuning));

	smd_tuning_list_places(tuning);
	return tuning->exchange.servers[kind].count < COMING_TIMES &&
	       (smd_exchange_kind_is_together(kind) || ns >= SMD_MEASURED_RATE_SLICE_NS) &&
	       ns >= FAR * 1e3 * us &&
	       smd_measured_rate_is_near(&tuning->rate, tuning->placed, now_ns);
}

/* Words take some operations to go round, so ranks meet before a trial could begin. But while short
 * operations are timed there is time enough; and of long ones rates may show that there will be no
 * trial. */
bool smd_tuning_should_meet(struct smd_tuning *tuning, uint64_t now_ns)
{
	double ns;

	if (smd_exchange_choice_is_due(&tuning->exchange, now_ns)) {
		return !rates_are_coming(tuning, now_ns);
	}
	if (!smd_exchange_choice_is_near(&tuning->exchange, now_ns)) { /* as with most operations */
		return false;
	}
	ns = smd_exchange_choice_served_ns(&tuning->exchange);
	return ns >= MEET_NS && ns < SMD_MEASURED_RATE_SLICE_NS;
}

bool smd_tuning_exchanges_go_on(const struct smd_tuning *tuning)
{
	return !tuning->exchange.possible ||
	       (tuning->exchange.doubts && tuning->tables > TABLES_LEFT) ||
	       smd_exchange_choice_is_on_trial(&tuning->exchange);
}

/* Where the present times are of other shards or chunks on trial, they say nothing of exchanges.
 * But a program that has gone over to other sizes leaves such a trial open for good. */
static bool trial_may_begin(const struct smd_tuning *tuning, uint64_t now_ns)
{
	return tuning->tables >= TABLES_LEFT &&
	       (!smd_tuning_is_on_trial(tuning) || now_ns - tuning->counted_ns >= OPEN_NS);
}

bool smd_tuning_exchanges_are_next(const struct smd_tuning *tuning, uint64_t now_ns)
{
	return trial_may_begin(tuning, now_ns) &&
	       smd_exchange_choice_is_due(&tuning->exchange, now_ns);
}

bool smd_tuning_exchanges_want(struct smd_tuning *tuning, uint64_t now_ns)
{
	return tuning->met && trial_may_begin(tuning, now_ns) &&
	       !rates_are_coming(tuning, now_ns) &&
	       smd_exchange_choice_want(&tuning->exchange, now_ns);
}
