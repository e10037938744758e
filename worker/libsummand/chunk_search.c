/* Tries chunks of other sizes on the program's operations, and keeps what is faster. */
#include "worker/libsummand/chunk_search.h"

#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/clock.h"

#define SMALLEST_LOG2 16u /* smaller operations are a chunk for each shard, or less */
#define SKIPPED       2u  /* after a change: streams are being joined, and links have rested */
#define TIMES_LEAST   8u  /* enough for a verdict, when they took */
#define SPENT_NS      200000000u
#define FASTER        0.98 /* what is kept takes so much of the time before, at most */
#define MUCH_FASTER   0.9  /* the same, of medians, for the largest where processors decide */
#define LOST          1.3  /* each of the first times on trial takes so much of the median before */
#define LOST_TIMES    4u
#define DRIFTED       1.3 /* settled times that change by so much: the network is another one */
#define WITHIN        0.5 /* sizes that were seen in a trial must stand for so much of the time */
#define DRIFT_NS      (20 * SMD_SECOND_NS) /* until the next search, then */
#define PAUSE_NS      (10 * SMD_SECOND_NS)
#define PAUSE_MOST_NS (600 * SMD_SECOND_NS)

void smd_chunk_search_begin(struct smd_chunk_search *search, int scale, uint64_t now_ns)
{
	*search = (struct smd_chunk_search){
		.settled = scale,
		.candidate = scale,
		.scale = scale,
		.next_ns = now_ns,
		.pause_ns = PAUSE_NS,
	};
}

bool smd_chunk_search_took(struct smd_chunk_search *search, uint64_t bytes, uint64_t ns)
{
	struct smd_chunk_times *times;
	unsigned size = bytes ? 63u - (unsigned)__builtin_clzll(bytes) : 0;

	if (size < SMALLEST_LOG2 || size - SMALLEST_LOG2 >= SMD_CHUNK_SEARCH_SIZES) {
		return false;
	}
	if (search->skipped < SKIPPED) {
		search->skipped++;
		return false;
	}
	times = &search->sizes[size - SMALLEST_LOG2];
	times->each[times->count++ % SMD_CHUNK_SEARCH_TIMES] = (double)ns / (double)bytes;
	times->spent_ns += ns;
	return true;
}

/* Long operations say something sooner: what disturbs is short. */
static bool has_times(const struct smd_chunk_times *times)
{
	return times->count >= SMD_CHUNK_SEARCH_TIMES ||
	       (times->count >= TIMES_LEAST && times->spent_ns >= SPENT_NS);
}

static int compare(const void *left, const void *right)
{
	double a = *(const double *)left;
	double b = *(const double *)right;

	return (a > b) - (a < b);
}

/* Of the times of a size, in order. */
enum among_times {
	FAST, /* not the fastest of many, which may be luck */
	MEDIAN,
	SLOWEST,
};

static double time_at(const struct smd_chunk_times *times, enum among_times place)
{
	unsigned n = times->count < SMD_CHUNK_SEARCH_TIMES ? times->count : SMD_CHUNK_SEARCH_TIMES;
	const unsigned index[] = {[FAST] = n / 8, [MEDIAN] = n / 2, [SLOWEST] = n - 1};
	double sorted[SMD_CHUNK_SEARCH_TIMES];

	memcpy(sorted, times->each, n * sizeof(sorted[0]));
	qsort(sorted, n, sizeof(sorted[0]), compare);
	return sorted[index[place]];
}

/* What a byte of all sizes takes now, to what the fast ones took at the settled scale, or their
 * median; 0: that cannot be said yet. */
static double ratio_to(const struct smd_chunk_search *search, enum among_times place, bool median)
{
	double now = 0;
	double then = 0;
	double missing = 0;

	for (unsigned i = 0; i < SMD_CHUNK_SEARCH_SIZES; i++) {
		const struct smd_chunk_times *times = &search->sizes[i];
		double weight = (double)(1ull << i); /* a size counts by the time that it takes */

		if (times->settled > 0 && has_times(times)) {
			now += time_at(times, place) /
			       (median ? times->settled_median : times->settled) * weight;
			then += weight;
		} else if (times->settled > 0) {
			missing += weight;
		}
	}
	return then > WITHIN * (then + missing) ? now / then : 0;
}

static double ratio_to_settled(const struct smd_chunk_search *search, enum among_times place)
{
	return ratio_to(search, place, false);
}

void smd_chunk_search_forget(struct smd_chunk_search *search)
{
	for (unsigned i = 0; i < SMD_CHUNK_SEARCH_SIZES; i++) {
		search->sizes[i].count = 0;
		search->sizes[i].spent_ns = 0;
	}
	search->skipped = 0;
}

/* The present scale is the best one so far, and these are its times. */
static bool settle(struct smd_chunk_search *search)
{
	bool any = false;

	for (unsigned i = 0; i < SMD_CHUNK_SEARCH_SIZES; i++) {
		struct smd_chunk_times *times = &search->sizes[i];

		times->settled = has_times(times) ? time_at(times, FAST) : 0;
		times->settled_median = has_times(times) ? time_at(times, MEDIAN) : 0;
		any |= times->settled > 0;
	}
	search->settled = search->scale;
	search->candidate = search->scale;
	return any;
}

/* The next one to try. Beside the settled one smaller ones come first, because interfaces rarely
 * say too little. False: both sides have been tried. */
static bool choose(struct smd_chunk_search *search)
{
	if (search->processors_decide && !search->tried_largest &&
		search->settled < SMD_CHUNK_SCALE_MOST) {
		search->tried_largest = true;
		search->wanted = SMD_CHUNK_SCALE_MOST;
		return true;
	}
	if (!search->tried_smaller && search->settled > SMD_CHUNK_SCALE_LEAST) {
		search->tried_smaller = true;
		search->wanted = search->settled - 1;
		return true;
	}
	if (!search->tried_larger && search->settled < SMD_CHUNK_SCALE_MOST) {
		search->tried_larger = true;
		search->wanted = search->settled + 1;
		return true;
	}
	return false;
}

static void rest(struct smd_chunk_search *search, uint64_t now_ns)
{
	search->tried_larger = false;
	search->tried_smaller = false;
	search->tried_largest = false;
	search->next_ns = now_ns + search->pause_ns;
	search->pause_ns *= 2;
	if (search->pause_ns > PAUSE_MOST_NS) {
		search->pause_ns = PAUSE_MOST_NS;
	}
}

static bool has_won(const struct smd_chunk_search *search)
{
	double ratio = ratio_to_settled(search, MEDIAN);

	return ratio > 0 &&
	       (ratio <= FASTER || (search->scale > search->settled + 1 &&
					   ratio_to(search, MEDIAN, true) <= MUCH_FASTER));
}

/* So clearly that no more operations need to suffer. */
static bool has_lost(const struct smd_chunk_search *search)
{
	bool any = false;

	for (unsigned i = 0; i < SMD_CHUNK_SEARCH_SIZES; i++) {
		const struct smd_chunk_times *times = &search->sizes[i];

		if (times->settled > 0 && times->count >= LOST_TIMES) {
			any = true;
			if (time_at(times, FAST) < LOST * times->settled_median) {
				return false;
			}
		}
	}
	return any;
}

/* A trial is over: the next one, or back to the settled scale. */
static bool judge_trial(struct smd_chunk_search *search, uint64_t now_ns)
{
	bool larger = search->scale > search->settled;
	bool next = search->scale == search->settled + 1;

	if (has_won(search)) {
		if (search->candidate != search->scale &&
			ratio_to_settled(search, SLOWEST) > FASTER) {
			search->candidate = search->scale;
			search->wanted = search->settled;
			return true;
		}
		settle(search);
		search->tried_smaller = next; /* where it comes from */
		search->tried_larger = !larger;
	}
	search->candidate = search->settled;
	if (choose(search)) {
		return true;
	}
	rest(search, now_ns);
	search->wanted = search->settled;
	return search->wanted != search->scale;
}

/* One that has won is tried again, against times that are as new. */
static bool try_again(struct smd_chunk_search *search)
{
	int candidate = search->candidate;

	if (ratio_to_settled(search, FAST) <= 0 || !settle(search)) {
		return false;
	}
	search->candidate = candidate;
	search->wanted = candidate;
	return true;
}

static bool has_drifted(const struct smd_chunk_search *search)
{
	double ratio = ratio_to_settled(search, FAST);

	return ratio > DRIFTED || (ratio > 0 && ratio < 1 / DRIFTED);
}

bool smd_chunk_search_is_due(const struct smd_chunk_search *search, uint64_t now_ns)
{
	return search->scale == search->settled && search->candidate == search->settled &&
	       now_ns >= search->next_ns;
}

bool smd_chunk_search_want(struct smd_chunk_search *search, uint64_t now_ns)
{
	if (search->scale != search->settled) {
		return (ratio_to_settled(search, MEDIAN) > 0 || has_lost(search)) &&
		       judge_trial(search, now_ns);
	}
	if (search->candidate != search->settled) {
		return try_again(search);
	}
	if (search->next_ns > now_ns + DRIFT_NS && has_drifted(search)) {
		search->next_ns = now_ns + DRIFT_NS;
	}
	if (now_ns < search->next_ns || !settle(search)) {
		return false;
	}
	return choose(search);
}

void smd_chunk_search_applied(struct smd_chunk_search *search)
{
	search->scale = search->wanted;
	smd_chunk_search_forget(search);
}
