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
#define MISSED_MOST   64u /* in a row, and for so long: the program does something else now */
#define MISSED_NS     SMD_SECOND_NS
#define FIRST_TIMES   3u /* by servers, for the first trial of a size: most programs would wait for more, */
#define FIRST_NS      (2 * SMD_SECOND_NS) /* and what that has refused is tried again soon */
#define PAUSE_NS      (10 * SMD_SECOND_NS)
#define DOUBT_NS      (2 * SMD_SECOND_NS)
#define LARGEST_NS    SMD_SECOND_NS
#define PAUSE_MOST_NS (600 * SMD_SECOND_NS)

static unsigned size_of(uint64_t bytes)
{
	unsigned size = 0;

	while (size < 64 && (uint64_t)1 << size < bytes) {
		size++;
	}
	return size;
}

static uint32_t bytes_of(unsigned size)
{
	return (uint32_t)1 << size;
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

/* By servers, of the size that is on trial or shall be. */
static bool times_are_enough(const struct smd_exchange_choice *choice)
{
	return choice->servers[choice->size].count >=
	       (choice->tried[choice->size] ? SMD_EXCHANGE_TIMES : FIRST_TIMES);
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
	for (unsigned size = 0; size < SMD_EXCHANGE_SIZES; size++) {
		choice->pause_ns[size] = PAUSE_NS;
	}
}

/* Whether operations of a larger size have come lately: while a smaller one was tried anew these
 * would go by servers, and then have a trial of their own. */
static bool is_largest(struct smd_exchange_choice *choice, unsigned size, uint64_t now_ns)
{
	if (size >= choice->largest || now_ns - choice->largest_ns >= LARGEST_NS) {
		choice->largest = size;
		choice->largest_ns = now_ns;
	}
	return size == choice->largest;
}

bool smd_exchange_choice_took(struct smd_exchange_choice *choice, uint64_t bytes, bool exchanged,
	uint64_t ns, uint64_t now_ns)
{
	unsigned size = size_of(bytes);
	bool on_trial = smd_exchange_choice_is_on_trial(choice);
	bool largest = exchanged && is_largest(choice, size, now_ns);

	choice->seen = true;
	if (!choice->possible || bytes == 0 || size >= SMD_EXCHANGE_SIZES) {
		return choice->always;
	}
	if (on_trial && exchanged && size == choice->size) {
		choice->missed = 0;
		times_took(&choice->trial, bytes, ns);
	} else if (!on_trial && exchanged && choice->doubt_ns == 0) { /* of a table before */
		choice->doubt_ns =
			now_ns + smd_backoff_next(&choice->doubt_pause_ns, PAUSE_MOST_NS);
	} else if (!on_trial && largest && now_ns >= choice->doubt_ns && !choice->always) {
		choice->size = size;
		choice->doubts = true;
	} else if (!on_trial && !exchanged && now_ns >= choice->next_ns[size]) {
		times_took(&choice->servers[size], bytes, ns);
		choice->size = size;
	}
	return true;
}

static bool gets_no_operations(const struct smd_exchange_choice *choice, uint64_t now_ns)
{
	return smd_exchange_choice_is_on_trial(choice) &&
	       choice->trial.count < SMD_EXCHANGE_TIMES && choice->missed >= MISSED_MOST &&
	       now_ns - choice->missed_ns >= MISSED_NS;
}

bool smd_exchange_choice_missed(struct smd_exchange_choice *choice, uint64_t now_ns)
{
	if (smd_exchange_choice_is_on_trial(choice) && choice->missed++ == 0) {
		choice->missed_ns = now_ns;
	}
	return gets_no_operations(choice, now_ns);
}

double smd_exchange_choice_served_ns(const struct smd_exchange_choice *choice)
{
	const struct smd_exchange_times *times = &choice->servers[choice->size];

	return times_median(times) * bytes_of(choice->size);
}

bool smd_exchange_choice_is_near(const struct smd_exchange_choice *choice, uint64_t now_ns)
{
	return choice->possible && !smd_exchange_choice_is_on_trial(choice) &&
	       choice->servers[choice->size].count > 0 &&
	       bytes_of(choice->size) > choice->settled && now_ns >= choice->next_ns[choice->size];
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
	double settled = times_median(&choice->servers[choice->size]);
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

/* Whether the trial is over, and lost. */
static bool judge(struct smd_exchange_choice *choice, uint64_t now_ns)
{
	bool lost = trial_has_lost(choice) || gets_no_operations(choice, now_ns);
	bool tried = choice->tried[choice->size];

	if (!lost && choice->trial.count < SMD_EXCHANGE_TIMES) {
		return false;
	}
	choice->tried[choice->size] = true;
	if (!lost && times_median(&choice->trial) <=
			     FASTER * times_median(&choice->servers[choice->size])) {
		choice->settled = choice->limit;
		choice->wanted = choice->limit;
		choice->missed = 0;
		choice->doubt_ns =
			now_ns + smd_backoff_next(&choice->doubt_pause_ns, PAUSE_MOST_NS);
		return false;
	}
	choice->next_ns[choice->size] =
		now_ns + (tried ? smd_backoff_next(&choice->pause_ns[choice->size], PAUSE_MOST_NS)
				: FIRST_NS);
	times_forget(&choice->servers[choice->size]);
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
		choice->wanted = bytes_of(SMD_EXCHANGE_SIZES - 1);
		return choice->limit != choice->wanted;
	}
	if (smd_exchange_choice_is_on_trial(choice)) {
		choice->wanted = choice->settled;
		return choice->over || judge(choice, now_ns);
	}
	if (!choice->doubts && !smd_exchange_choice_is_due(choice, now_ns)) {
		return false;
	}
	choice->wanted_size = choice->size;
	choice->wants_doubt = choice->doubts;
	choice->wanted = choice->doubts ? bytes_of(choice->size) / 2 : bytes_of(choice->size);
	return true;
}

void smd_exchange_choice_applied(struct smd_exchange_choice *choice)
{
	choice->limit = choice->wanted;
	choice->over = false;
	choice->size = choice->wanted_size;
	if (choice->always || !choice->possible || choice->wants_doubt) {
		choice->settled = choice->limit;
	}
	if (choice->wants_doubt) { /* it is tried anew when servers' times are there */
		choice->wants_doubt = false;
		choice->doubts = false;
		times_forget(&choice->servers[choice->size]);
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
}
