/* Tries exchanges of the sizes that a program uses, and keeps what is faster. */
#include "worker/libsummand/exchange_choice.h"

#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/clock.h"
#include "worker/libsummand/backoff.h"

#define ENTRY_NS      1000000u /* shorter operations are taken together until they took so long */
#define SKIPPED       2u       /* after a change: lanes have rested */
#define FASTER        0.97
#define LOST          1.3 /* so much longer, each of the first times: */
#define LOST_TIMES    3u
#define HARMED        1.1 /* so much longer: then the other kind of the size must not win */
#define TRIALS_MOST   10u /* a lost trial, and at least so many times as long without one */
#define MISSED_MOST   64u /* in a row, and for so long: the program does something else now */
#define MISSED_NS     SMD_SECOND_NS
#define FIRST_TIMES   3u /* by servers, for the first trial of a size: most programs would wait for more, */
#define FIRST_NS      (2 * SMD_SECOND_NS) /* and what that has refused is tried again soon */
#define PAUSE_NS      (10 * SMD_SECOND_NS)
#define DOUBT_NS      (2 * SMD_SECOND_NS)
#define LATELY_NS     SMD_SECOND_NS
#define PAUSE_MOST_NS (600 * SMD_SECOND_NS)

unsigned smd_exchange_kind(uint64_t bytes, bool together)
{
	unsigned size = 0;

	while (size < SMD_EXCHANGE_SIZES && (uint64_t)1 << size < bytes) {
		size++;
	}
	if (bytes == 0 || size == SMD_EXCHANGE_SIZES) {
		return SMD_EXCHANGE_KINDS;
	}
	return together ? SMD_EXCHANGE_SIZES + size : size;
}

uint32_t smd_exchange_kind_bytes(unsigned kind)
{
	return (uint32_t)1 << kind % SMD_EXCHANGE_SIZES;
}

static void times_forget(struct smd_exchange_times *times)
{
	*times = (struct smd_exchange_times){.count = 0};
}

static void times_took(struct smd_exchange_times *times, uint64_t bytes, uint64_t ns)
{
	if (times->skipped < SKIPPED) {
		times->skipped++;
		return;
	}
	times->entry_ns += ns;
	times->entry_bytes += bytes;
	if (times->entry_ns >= ENTRY_NS) {
		times->each[times->count++ % SMD_EXCHANGE_TIMES] =
			(double)times->entry_ns / (double)times->entry_bytes;
		times->entry_ns = 0;
		times->entry_bytes = 0;
	}
}

static int compare(const void *left, const void *right)
{
	double a = *(const double *)left;
	double b = *(const double *)right;

	return (a > b) - (a < b);
}

/* Of as many as a verdict is on, or fewer; 0: of none. */
static double times_median(const struct smd_exchange_times *times)
{
	double sorted[SMD_EXCHANGE_TIMES];
	unsigned n = times->count < SMD_EXCHANGE_TIMES ? times->count : SMD_EXCHANGE_TIMES;

	memcpy(sorted, times->each, n * sizeof(sorted[0]));
	qsort(sorted, n, sizeof(sorted[0]), compare);
	return n ? (sorted[(n - 1) / 2] + sorted[n / 2]) / 2 : 0;
}

/* By servers, of the kind that is on trial or shall be. */
static bool times_are_enough(const struct smd_exchange_choice *choice)
{
	return choice->servers[choice->kind].count >=
	       (choice->tried[choice->kind] ? SMD_EXCHANGE_TIMES : FIRST_TIMES);
}

void smd_exchange_choice_stop(struct smd_exchange_choice *choice)
{
	choice->possible = false;
	choice->always = false;
	choice->settled = choice->limit;
}

void smd_exchange_choice_begin(
	struct smd_exchange_choice *choice, bool possible, bool always, uint32_t settled)
{
	*choice = (struct smd_exchange_choice){.possible = possible,
		.always = always,
		.settled = settled,
		.limit = settled,
		.wanted = settled,
		.doubt_pause_ns = DOUBT_NS};
	for (unsigned kind = 0; kind < SMD_EXCHANGE_KINDS; kind++) {
		choice->pause_ns[kind] = PAUSE_NS;
	}
}

/* Whether it is as those were that have won, alone or together, or none of these has come lately.
 */
static bool is_as_won(struct smd_exchange_choice *choice, unsigned kind, uint64_t now_ns)
{
	bool together = smd_exchange_kind_is_together(kind);

	if (together != choice->won_together && now_ns - choice->won_ns < LATELY_NS) {
		return false;
	}
	choice->won_together = together;
	choice->won_ns = now_ns;
	return true;
}

/* Whether operations of a larger size have come lately: while a smaller one was tried anew these
 * would go by servers, and then have a trial of their own. */
static bool is_largest(struct smd_exchange_choice *choice, unsigned kind, uint64_t now_ns)
{
	if (kind >= choice->largest || now_ns - choice->largest_ns >= LATELY_NS) {
		choice->largest = kind;
		choice->largest_ns = now_ns;
	}
	return kind == choice->largest;
}

/* The same size, together or alone. */
static unsigned other_of(unsigned kind)
{
	return kind < SMD_EXCHANGE_SIZES ? kind + SMD_EXCHANGE_SIZES : kind - SMD_EXCHANGE_SIZES;
}

/* Exchanges may be so fast that operations overlap no more: then their times alone are the trial's,
 * which takes them for longer than they would be together. */
static bool is_of_trial(const struct smd_exchange_choice *choice, unsigned kind)
{
	return kind == choice->kind ||
	       (smd_exchange_kind_is_together(choice->kind) && kind == other_of(choice->kind));
}

bool smd_exchange_choice_took(struct smd_exchange_choice *choice, unsigned kind, uint64_t bytes,
	bool exchanged, uint64_t ns, uint64_t now_ns)
{
	bool on_trial = smd_exchange_choice_is_on_trial(choice);
	bool settled;
	bool largest;

	if (!choice->possible || kind >= SMD_EXCHANGE_KINDS) {
		return false;
	}
	choice->came_ns[kind] = now_ns;
	/* Those of a trial that was lost may end late. */
	settled = exchanged && smd_exchange_kind_bytes(kind) <= choice->settled;
	largest = settled && is_as_won(choice, kind, now_ns) && is_largest(choice, kind, now_ns);
	if (on_trial && exchanged && is_of_trial(choice, kind)) {
		choice->missed = 0;
		times_took(&choice->trial, bytes, ns);
	} else if (!on_trial && settled && choice->doubt_ns == 0) { /* of a table before */
		choice->doubt_ns =
			now_ns + smd_backoff_next(&choice->doubt_pause_ns, PAUSE_MOST_NS);
	} else if (!on_trial && largest && now_ns >= choice->doubt_ns && !choice->always) {
		choice->doubts = true;
	} else if (!on_trial && !exchanged && now_ns >= choice->next_ns[kind]) {
		times_took(&choice->servers[kind], bytes, ns);
		choice->kind = kind;
	}
	return true;
}

static bool gets_no_operations(const struct smd_exchange_choice *choice, uint64_t now_ns)
{
	return smd_exchange_choice_is_on_trial(choice) &&
	       choice->trial.count < SMD_EXCHANGE_TIMES && choice->missed >= MISSED_MOST &&
	       now_ns - choice->missed_ns >= MISSED_NS;
}

bool smd_exchange_choice_missed(
	struct smd_exchange_choice *choice, unsigned operations, uint64_t now_ns)
{
	choice->seen = true;
	if (smd_exchange_choice_is_on_trial(choice)) {
		choice->missed_ns = choice->missed ? choice->missed_ns : now_ns;
		choice->missed += operations;
	}
	return choice->always || gets_no_operations(choice, now_ns);
}

double smd_exchange_choice_served_ns(const struct smd_exchange_choice *choice)
{
	const struct smd_exchange_times *times = &choice->servers[choice->kind];

	return times_median(times) * smd_exchange_kind_bytes(choice->kind);
}

bool smd_exchange_choice_is_near(const struct smd_exchange_choice *choice, uint64_t now_ns)
{
	return choice->possible && !smd_exchange_choice_is_on_trial(choice) &&
	       choice->servers[choice->kind].count > 0 &&
	       smd_exchange_kind_bytes(choice->kind) > choice->settled &&
	       now_ns >= choice->next_ns[choice->kind];
}

bool smd_exchange_choice_is_due(const struct smd_exchange_choice *choice, uint64_t now_ns)
{
	if (choice->always) {
		return choice->seen && choice->settled == 0;
	}
	return smd_exchange_choice_is_near(choice, now_ns) && times_are_enough(choice);
}

static bool trial_has_lost(const struct smd_exchange_choice *choice)
{
	double settled = times_median(&choice->servers[choice->kind]);
	unsigned n = choice->trial.count;

	if (n < LOST_TIMES || n >= SMD_EXCHANGE_TIMES) {
		return false;
	}
	for (unsigned i = 0; i < n; i++) {
		if (choice->trial.each[i] < LOST * settled) {
			return false;
		}
	}
	return true;
}

/* A table has one limit for both kinds of a size: what wins must not make the other one much
 * slower, where that comes, too. */
static bool harms_other(const struct smd_exchange_choice *choice, uint64_t now_ns)
{
	unsigned other = other_of(choice->kind);

	return choice->lost[other] > HARMED && now_ns - choice->came_ns[other] < LATELY_NS;
}

/* So many times as long as by servers; 0: it cannot be said. */
static double trial_ratio(const struct smd_exchange_choice *choice)
{
	double servers = times_median(&choice->servers[choice->kind]);

	return servers > 0 ? times_median(&choice->trial) / servers : 0;
}

/* A program must not spend most of its time on trials that are lost. */
static uint64_t pause_after(struct smd_exchange_choice *choice, bool tried, uint64_t now_ns)
{
	uint64_t least_ns = TRIALS_MOST * (now_ns - choice->trial_ns);
	uint64_t pause_ns =
		tried ? smd_backoff_next(&choice->pause_ns[choice->kind], PAUSE_MOST_NS) : FIRST_NS;

	return pause_ns > least_ns ? pause_ns : least_ns;
}

/* Whether the trial is over, and lost. */
static bool judge(struct smd_exchange_choice *choice, uint64_t now_ns)
{
	bool lost = trial_has_lost(choice) || gets_no_operations(choice, now_ns);
	bool tried = choice->tried[choice->kind];

	if (!lost && choice->trial.count < SMD_EXCHANGE_TIMES) {
		return false;
	}
	choice->tried[choice->kind] = true;
	choice->lost[choice->kind] = trial_ratio(choice);
	if (!lost && trial_ratio(choice) <= FASTER && !harms_other(choice, now_ns)) {
		choice->lost[choice->kind] = 0;
		choice->settled = choice->limit;
		choice->wanted = choice->limit;
		choice->won_together = smd_exchange_kind_is_together(choice->kind);
		choice->won_ns = now_ns;
		choice->missed = 0;
		choice->doubt_ns =
			now_ns + smd_backoff_next(&choice->doubt_pause_ns, PAUSE_MOST_NS);
		return false;
	}
	choice->next_ns[choice->kind] = now_ns + pause_after(choice, tried, now_ns);
	times_forget(&choice->servers[choice->kind]);
	choice->over = true;
	return true;
}

bool smd_exchange_choice_want(struct smd_exchange_choice *choice, uint64_t now_ns)
{
	if (!choice->possible) {
		choice->wanted = 0;
		return choice->limit > 0;
	}
	if (choice->always) {
		choice->wanted = smd_exchange_kind_bytes(SMD_EXCHANGE_SIZES - 1);
		return choice->limit != choice->wanted;
	}
	if (smd_exchange_choice_is_on_trial(choice)) {
		choice->wanted = choice->settled;
		return choice->over || judge(choice, now_ns);
	}
	if (!choice->doubts && !smd_exchange_choice_is_due(choice, now_ns)) {
		return false;
	}
	choice->wanted_kind = choice->doubts ? choice->largest : choice->kind;
	choice->wants_doubt = choice->doubts;
	choice->wanted = smd_exchange_kind_bytes(choice->wanted_kind) / (choice->doubts ? 2 : 1);
	return true;
}

/* Times of what goes by servers anew would be old ones. */
static void forget_servers(struct smd_exchange_choice *choice, uint32_t above, uint32_t most)
{
	for (unsigned kind = 0; kind < SMD_EXCHANGE_KINDS; kind++) {
		uint32_t bytes = smd_exchange_kind_bytes(kind);

		if (bytes > above && bytes <= most) {
			times_forget(&choice->servers[kind]);
		}
	}
}

void smd_exchange_choice_applied(struct smd_exchange_choice *choice, uint64_t now_ns)
{
	uint32_t settled = choice->settled;

	choice->limit = choice->wanted;
	choice->trial_ns = now_ns;
	choice->over = false;
	choice->kind = choice->wanted_kind;
	if (choice->always || !choice->possible || choice->wants_doubt) {
		choice->settled = choice->limit;
	}
	if (choice->wants_doubt) { /* it is tried anew when servers' times are there */
		choice->wants_doubt = false;
		choice->doubts = false;
		forget_servers(choice, choice->limit, settled);
	}
	times_forget(&choice->trial);
	choice->missed = 0;
}

void smd_exchange_choice_settle(struct smd_exchange_choice *choice, uint32_t bytes)
{
	choice->settled = bytes;
	choice->limit = bytes;
	choice->doubts = false;
	choice->wants_doubt = false;
	choice->over = false;
	choice->missed = 0;
}

void smd_exchange_choice_forget(struct smd_exchange_choice *choice)
{
	times_forget(&choice->trial);
	memset(choice->servers, 0, sizeof(choice->servers));
	memset(choice->lost, 0, sizeof(choice->lost));
}
