/* Keeps the last times of operations of each size, and those of the table that is settled. */
#include "worker/libsummand/operation_times.h"

#include <stdlib.h>
#include <string.h>

#define SMALLEST_LOG2 16u /* smaller operations are a chunk for each shard, or less */
#define SKIPPED       2u  /* after a change: streams are being joined, and links have rested */
#define ENTRY_NS      4000000u /* shorter operations are taken together until they took so long */
#define TIMES_LEAST   8u  /* enough for a verdict, when they took */
#define SPENT_NS      200000000u
#define LOST          1.3 /* each of the first times takes so much of the settled median, */
#define LOST_SPENT    1.0 /* or so much, when they took SPENT_NS */
#define LOST_TIMES    4u
#define WITHIN        0.5 /* sizes that were seen must stand for so much of the time */

bool smd_operation_times_took(struct smd_operation_times *times, uint64_t bytes, uint64_t ns)
{
	struct smd_times_of_size *one;
	unsigned size = bytes ? 63u - (unsigned)__builtin_clzll(bytes) : 0;

	if (size < SMALLEST_LOG2 || size - SMALLEST_LOG2 >= SMD_OPERATION_SIZES) {
		return false;
	}
	if (times->skipped < SKIPPED) {
		times->skipped++;
		return false;
	}
	one = &times->sizes[size - SMALLEST_LOG2];
	one->spent_ns += ns;
	one->entry_ns += ns;
	one->entry_bytes += bytes;
	if (one->entry_ns < ENTRY_NS) {
		return false;
	}
	one->each[one->count++ % SMD_OPERATION_TIMES] =
		(double)one->entry_ns / (double)one->entry_bytes;
	one->entry_ns = 0;
	one->entry_bytes = 0;
	return true;
}

/* Long operations say something sooner: what disturbs is short. */
static bool has_times(const struct smd_times_of_size *one)
{
	return one->count >= SMD_OPERATION_TIMES ||
	       (one->count >= TIMES_LEAST && one->spent_ns >= SPENT_NS);
}

static int compare(const void *left, const void *right)
{
	double a = *(const double *)left;
	double b = *(const double *)right;

	return (a > b) - (a < b);
}

static double time_at(const struct smd_times_of_size *one, enum smd_among_times place)
{
	unsigned n = one->count < SMD_OPERATION_TIMES ? one->count : SMD_OPERATION_TIMES;
	const unsigned index[] = {
		[SMD_TIMES_FAST] = n / 8, [SMD_TIMES_MEDIAN] = n / 2, [SMD_TIMES_SLOWEST] = n - 1};
	double sorted[SMD_OPERATION_TIMES];

	memcpy(sorted, one->each, n * sizeof(sorted[0]));
	qsort(sorted, n, sizeof(sorted[0]), compare);
	return sorted[index[place]];
}

double smd_operation_times_ratio(
	const struct smd_operation_times *times, enum smd_among_times place, bool median)
{
	double now = 0;
	double then = 0;
	double missing = 0;

	for (unsigned i = 0; i < SMD_OPERATION_SIZES; i++) {
		const struct smd_times_of_size *one = &times->sizes[i];
		double weight = (double)(1ull << i); /* a size counts by the time that it takes */

		if (one->settled > 0 && has_times(one)) {
			now += time_at(one, place) / (median ? one->settled_median : one->settled) *
			       weight;
			then += weight;
		} else if (one->settled > 0) {
			missing += weight;
		}
	}
	return then > WITHIN * (then + missing) ? now / then : 0;
}

void smd_operation_times_forget(struct smd_operation_times *times)
{
	for (unsigned i = 0; i < SMD_OPERATION_SIZES; i++) {
		times->sizes[i].count = 0;
		times->sizes[i].spent_ns = 0;
		times->sizes[i].entry_ns = 0;
		times->sizes[i].entry_bytes = 0;
	}
	times->skipped = 0;
}

bool smd_operation_times_settle(struct smd_operation_times *times)
{
	bool any = false;

	for (unsigned i = 0; i < SMD_OPERATION_SIZES; i++) {
		struct smd_times_of_size *one = &times->sizes[i];

		one->settled = has_times(one) ? time_at(one, SMD_TIMES_FAST) : 0;
		one->settled_median = has_times(one) ? time_at(one, SMD_TIMES_MEDIAN) : 0;
		any |= one->settled > 0;
	}
	return any;
}

bool smd_operation_times_have_lost(const struct smd_operation_times *times)
{
	bool any = false;

	for (unsigned i = 0; i < SMD_OPERATION_SIZES; i++) {
		const struct smd_times_of_size *one = &times->sizes[i];

		if (one->settled > 0 && one->count >= LOST_TIMES) {
			any = true;
			double lost = one->spent_ns >= SPENT_NS ? LOST_SPENT : LOST;

			if (time_at(one, SMD_TIMES_FAST) < lost * one->settled_median) {
				return false;
			}
		}
	}
	return any;
}
