/* Tries chunks of other sizes on the program's operations, and keeps what is faster. */
#include "worker/libsummand/chunk_search.h"

#include <string.h>

#include "reduction_server/base/clock.h"

#define SMALLEST_LOG2 16u  /* smaller operations are a chunk for each shard, or less */
#define SKIPPED       1u   /* after a change: streams are being joined */
#define FASTER        0.98 /* what is kept takes so much of the time before, at most */
#define DRIFTED       1.3  /* settled times that change by so much: the network is another one */
#define WITHIN        0.5  /* sizes that were seen in a trial must stand for so much of the time */
#define DRIFT_NS      (20 * SMD_SECOND_NS) /* until the next search, then */
#define PAUSE_NS      (10 * SMD_SECOND_NS)
#define PAUSE_MOST_NS (600 * SMD_SECOND_NS)

void smd_chunk_search_begin(struct smd_chunk_search *search, int scale, uint64_t now_ns)
{
	*search = (struct smd_chunk_search){
		.settled = scale, .scale = scale, .next_ns = now_ns, .pause_ns = PAUSE_NS};
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
	return true;
}

static bool has_times(const struct smd_chunk_times *times)
{
	return times->count >= SMD_CHUNK_SEARCH_TIMES;
}

/* The second fastest: the fastest may be luck, and slow ones have waited for a rank. */
static double time_of(const struct smd_chunk_times *times)
{
	double first = times->each[0];
	double second = times->each[1];

	if (second < first) {
		first = times->each[1];
		second = times->each[0];
	}
	for (unsigned i = 2; i < SMD_CHUNK_SEARCH_TIMES; i++) {
		if (times->each[i] < first) {
			second = first;
			first = times->each[i];
		} else if (times->each[i] < second) {
			second = times->each[i];
		}
	}
	return second;
}

/* What a byte of all sizes takes now, to what it took at the settled scale; 0: that cannot be said
 * yet. */
static double ratio_to_settled(const struct smd_chunk_search *search)
{
	double now = 0;
	double then = 0;
	double missing = 0;

	for (unsigned i = 0; i < SMD_CHUNK_SEARCH_SIZES; i++) {
		const struct smd_chunk_times *times = &search->sizes[i];
		double weight = (double)(1ull << i); /* a size counts by the time that it takes */

		if (times->settled > 0 && has_times(times)) {
			now += time_of(times) / times->settled * weight;
			then += weight;
		} else if (times->settled > 0) {
			missing += weight;
		}
	}
	return then > WITHIN * (then + missing) ? now / then : 0;
}

void smd_chunk_search_forget(struct smd_chunk_search *search)
{
	for (unsigned i = 0; i < SMD_CHUNK_SEARCH_SIZES; i++) {
		search->sizes[i].count = 0;
	}
	search->skipped = 0;
}

/* The present scale is the best one so far, and these are its times. */
static bool settle(struct smd_chunk_search *search)
{
	bool any = false;

	for (unsigned i = 0; i < SMD_CHUNK_SEARCH_SIZES; i++) {
		struct smd_chunk_times *times = &search->sizes[i];

		times->settled = has_times(times) ? time_of(times) : 0;
		any |= times->settled > 0;
	}
	search->settled = search->scale;
	return any;
}

/* The next one to try, beside the settled one: smaller ones first, because interfaces rarely say
 * too little. False: both sides have been tried. */
static bool choose(struct smd_chunk_search *search)
{
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
	search->next_ns = now_ns + search->pause_ns;
	search->pause_ns *= 2;
	if (search->pause_ns > PAUSE_MOST_NS) {
		search->pause_ns = PAUSE_MOST_NS;
	}
}

/* A trial is over: the next one, or back to the settled scale. */
static bool judge_trial(struct smd_chunk_search *search, double ratio, uint64_t now_ns)
{
	bool larger = search->scale > search->settled;

	if (ratio <= FASTER) {
		settle(search);
		search->tried_smaller = larger; /* where it comes from */
		search->tried_larger = !larger;
	}
	if (choose(search)) {
		return true;
	}
	rest(search, now_ns);
	search->wanted = search->settled;
	return search->wanted != search->scale;
}

bool smd_chunk_search_want(struct smd_chunk_search *search, uint64_t now_ns)
{
	double ratio = ratio_to_settled(search);

	if (search->scale != search->settled) {
		return ratio > 0 && judge_trial(search, ratio, now_ns);
	}
	if ((ratio > DRIFTED || (ratio > 0 && ratio < 1 / DRIFTED)) &&
		search->next_ns > now_ns + DRIFT_NS) {
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
