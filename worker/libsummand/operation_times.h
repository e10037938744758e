/*
 * How long operations take at a table, by their size, to compare one table with another.
 *
 * What is *settled* are the times at the best table so far; the present ones are since the last
 * smd_operation_times_forget(). Times scatter, so a verdict is on several of a size, and each size
 * counts by the time that it takes. Short operations are taken together, for some milliseconds:
 * where a shaper saves tokens, or processes share a processor, most of them are fast and some wait
 * for all that these have saved, so a single one says nothing, nor does their median.
 *
 * One thread uses it: the owner of the progress engine.
 */
#ifndef SMD_LIBSUMMAND_OPERATION_TIMES_H
#define SMD_LIBSUMMAND_OPERATION_TIMES_H

#include <stdbool.h>
#include <stdint.h>

#define SMD_OPERATION_SIZES 32u /* powers of two of bytes, from 64 KiB on */
#define SMD_OPERATION_TIMES 16u /* of each size, that a verdict is on at most */

struct smd_times_of_size {
	double each[SMD_OPERATION_TIMES]; /* ns per byte; of several operations if these are short */
	unsigned count;
	uint64_t entry_ns; /* of the next one of these */
	uint64_t entry_bytes;
	uint64_t spent_ns;
	double settled; /* what the fast ones took at the table that is settled; 0: not known */
	double settled_median;
};

struct smd_operation_times {
	struct smd_times_of_size sizes[SMD_OPERATION_SIZES];
	unsigned skipped; /* operations since the last change that did not count */
};

/* Of the present times of a size, in order. */
enum smd_among_times {
	SMD_TIMES_FAST, /* not the fastest of many, which may be luck */
	SMD_TIMES_MEDIAN,
	SMD_TIMES_SLOWEST,
};

/* What was in flight together, `bytes` in all, took `ns` from its first operation's begin to its
 * last one's end. Whether that counts. */
bool smd_operation_times_took(struct smd_operation_times *times, uint64_t bytes, uint64_t ns);

/* What was measured does not count: the table, or something else, has changed. */
void smd_operation_times_forget(struct smd_operation_times *times);

/* The present times are the settled ones from now on. Whether there are any. */
bool smd_operation_times_settle(struct smd_operation_times *times);

/* What a byte of all sizes takes now, to what the fast ones took at the settled table, or their
 * median; 0: that cannot be said yet. */
double smd_operation_times_ratio(
	const struct smd_operation_times *times, enum smd_among_times place, bool median);

/* The first times after a change are so much longer than the settled ones that no more operations
 * need to suffer. */
bool smd_operation_times_have_lost(const struct smd_operation_times *times);

#endif
