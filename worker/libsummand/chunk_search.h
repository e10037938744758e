/*
 * Which size of chunks makes the operations of this program fastest (specs/design/epochs.md,
 * Rates).
 *
 * What declared bandwidths suggest may be wrong: interfaces lie, and where processors decide,
 * messages cost more than bytes. So larger and smaller ones are tried, in powers of two, on the
 * program's own operations, and what is not faster is taken back. Rank 0's times decide. They
 * scatter, and a slow rank makes some of any size late, so a size on trial is faster only when its
 * median beats the fast ones of the size before, and it has to show that twice unless all of its
 * times do.
 *
 * Where processors decide, the largest are tried first: there an operation is best in one chunk,
 * and what is gained on the way to that, size by size, is lost in the noise. Times scatter so much
 * there that medians are compared, and must differ by more.
 *
 * One thread uses it: the owner of the progress engine. Times are smd_clock_ns().
 */
#ifndef SMD_LIBSUMMAND_CHUNK_SEARCH_H
#define SMD_LIBSUMMAND_CHUNK_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/libsummand/operation_times.h"

#define SMD_CHUNK_SCALE_LEAST (-3) /* chunks of 1/8 */
#define SMD_CHUNK_SCALE_MOST  3

struct smd_chunk_search {
	int settled; /* the best one so far */
	int scale;   /* in use: another one is on trial */
	int wanted;
	int candidate; /* has won once, and is tried again if that is not the settled one */
	int least; /* of those that are tried, */
	int most;
	bool tried_larger;
	bool tried_smaller;
	bool tried_largest;
	bool is_largest; /* what is tried: the largest of all, because processors decide */
	bool processors_decide; /* the caller's word, from the next search on */
	struct smd_operation_times times;
	uint64_t next_ns;  /* no trial before */
	uint64_t pause_ns; /* after the next search */
};

/* From that scale on. */
void smd_chunk_search_begin(struct smd_chunk_search *search, int scale, uint64_t now_ns);

/* What was in flight together, `bytes` in all, took `ns` from its first operation's begin to its
 * last one's end. Whether that counts. */
bool smd_chunk_search_took(struct smd_chunk_search *search, uint64_t bytes, uint64_t ns);

/* Another scale than the settled one is in use, or will be. */
static inline bool smd_chunk_search_is_on_trial(const struct smd_chunk_search *search)
{
	return search->scale != search->settled || search->candidate != search->settled;
}

/* Whether a search may begin: then it should be known what decides. */
bool smd_chunk_search_is_due(const struct smd_chunk_search *search, uint64_t now_ns);

/* Whether another scale should be used: search->wanted. */
bool smd_chunk_search_want(struct smd_chunk_search *search, uint64_t now_ns);

/* The wanted scale is in use from now on. */
void smd_chunk_search_applied(struct smd_chunk_search *search);

/* What was measured since the scale changed does not count: something else has. */
void smd_chunk_search_forget(struct smd_chunk_search *search);

#endif
