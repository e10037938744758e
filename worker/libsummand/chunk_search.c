/* Tries chunks of other sizes on the program's operations, and keeps what is faster. */
#include "worker/libsummand/chunk_search.h"

#include "reduction_server/base/clock.h"
#include "worker/libsummand/backoff.h"

#define FASTER        0.98 /* what is kept takes so much of the time before, at most */
#define MUCH_FASTER   0.9  /* the same, of medians, for the largest where processors decide */
#define DRIFTED       1.3  /* settled times that change by so much: the network is another one */
#define DRIFT_NS      (20 * SMD_SECOND_NS) /* until the next search, then */
#define PAUSE_NS      (10 * SMD_SECOND_NS)
#define PAUSE_MOST_NS (600 * SMD_SECOND_NS)

void smd_chunk_search_begin(struct smd_chunk_search *search, int scale, uint64_t now_ns)
{
	*search = (struct smd_chunk_search){
		.settled = scale,
		.candidate = scale,
		.scale = scale,
		.least = SMD_CHUNK_SCALE_LEAST,
		.most = SMD_CHUNK_SCALE_MOST,
		.next_ns = now_ns,
		.pause_ns = PAUSE_NS,
	};
}

bool smd_chunk_search_took(struct smd_chunk_search *search, uint64_t bytes, uint64_t ns)
{
	return smd_operation_times_took(&search->times, bytes, ns);
}

void smd_chunk_search_forget(struct smd_chunk_search *search)
{
	smd_operation_times_forget(&search->times);
}

/* To the fast ones at the settled scale. */
static double ratio_to_settled(const struct smd_chunk_search *search, enum smd_among_times place)
{
	return smd_operation_times_ratio(&search->times, place, false);
}

/* The present scale is the best one so far, and these are its times. */
static bool settle(struct smd_chunk_search *search)
{
	search->settled = search->scale;
	search->candidate = search->scale;
	return smd_operation_times_settle(&search->times);
}

/* The settled one, or what has the same chunks of those that differ. */
static int find_place(const struct smd_chunk_search *search)
{
	int place = search->settled < search->least ? search->least : search->settled;

	return place > search->most ? search->most : place;
}

/* The next one to try. Beside the settled one smaller ones come first, because interfaces rarely
 * say too little. False: both sides have been tried. */
static bool choose(struct smd_chunk_search *search)
{
	int place = find_place(search);

	search->is_largest = false;
	if (search->processors_decide && !search->tried_largest && place < search->most) {
		search->tried_largest = true;
		search->tried_larger |= search->most == place + 1;
		search->is_largest = true;
		search->wanted = search->most;
		return true;
	}
	if (!search->tried_smaller && place > search->least) {
		search->tried_smaller = true;
		search->wanted = place - 1;
		return true;
	}
	if (!search->tried_larger && place < search->most) {
		search->tried_larger = true;
		search->wanted = place + 1;
		return true;
	}
	return false;
}

static void rest(struct smd_chunk_search *search, uint64_t now_ns)
{
	search->tried_larger = false;
	search->tried_smaller = false;
	search->tried_largest = false;
	search->next_ns = now_ns + smd_backoff_next(&search->pause_ns, PAUSE_MOST_NS);
}

static bool has_won(const struct smd_chunk_search *search)
{
	double ratio = ratio_to_settled(search, SMD_TIMES_MEDIAN);

	return ratio > 0 &&
	       (ratio <= FASTER ||
		       (search->is_largest && smd_operation_times_ratio(&search->times,
						      SMD_TIMES_MEDIAN, true) <= MUCH_FASTER));
}

/* A trial is over: the next one, or back to the settled scale. */
static bool judge_trial(struct smd_chunk_search *search, uint64_t now_ns)
{
	bool larger = search->scale > search->settled;
	bool next = search->scale == search->settled + 1;

	if (has_won(search)) {
		if (search->candidate != search->scale &&
			ratio_to_settled(search, SMD_TIMES_SLOWEST) > FASTER) {
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

	if (ratio_to_settled(search, SMD_TIMES_FAST) <= 0 || !settle(search)) {
		return false;
	}
	search->candidate = candidate;
	search->wanted = candidate;
	return true;
}

static bool has_drifted(const struct smd_chunk_search *search)
{
	double ratio = ratio_to_settled(search, SMD_TIMES_FAST);

	return ratio > DRIFTED || (ratio > 0 && ratio < 1 / DRIFTED);
}

bool smd_chunk_search_is_due(const struct smd_chunk_search *search, uint64_t now_ns)
{
	return !smd_chunk_search_is_on_trial(search) && now_ns >= search->next_ns;
}

bool smd_chunk_search_want(struct smd_chunk_search *search, uint64_t now_ns)
{
	if (search->scale != search->settled) {
		return (ratio_to_settled(search, SMD_TIMES_MEDIAN) > 0 ||
			       smd_operation_times_have_lost(&search->times)) &&
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
