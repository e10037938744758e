/*
 * The *history* of a communicator: copies of what this rank may still have to contribute to chunks
 * of operations that have returned, until all ranks have their results (specs/design/epochs.md).
 *
 * A ring of SMD_HISTORY_BYTES, and an entry for each chunk, in the order of their copies, each on
 * cache lines of its own. What is stable leaves at the front. An operation that does not fit waits
 * until all ranks have its results.
 */
#ifndef SMD_LIBSUMMAND_HISTORY_H
#define SMD_LIBSUMMAND_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reduction_server/wire/frame.h"

struct smd_deal;
struct smd_flow;

#define SMD_HISTORY_BYTES (4u << 20)
#define SMD_HISTORY_COPY  (256u << 10) /* of one operation, at most, */
/* or so much where servers carry no more for each rank than so many Mbit/s: */
#define SMD_HISTORY_COPY_SLOW (512u << 10)
#define SMD_HISTORY_SLOW_MBPS 25000u
#define SMD_HISTORY_ENTRIES   1024u
#define SMD_HISTORY_OUTSIDE   16u /* of these, at most, have bytes that are elsewhere */

/* A chunk of an operation that has returned. */
struct smd_kept {
	struct smd_flow *flow;  /* that it was dealt to last, */
	uint64_t ordinal;       /* as this one */
	uint64_t chunk;         /* in the operation's first numbering */
	struct smd_frame shape; /* what a part of it says */
	const uint8_t *bytes;
	uint32_t length;   /* of `bytes`: */
	bool is_result;    /* the result, or the input */
	uint32_t received; /* bytes of the result that comes back, which is dropped */
	bool outside;      /* it was an exchange: all ranks may have had it before its stream did */
	uint32_t copied;   /* bytes in the ring: all, or 0 where they are elsewhere, */
	size_t end;        /* and there, behind the last cache line */
};

struct smd_history {
	uint8_t *bytes;           /* NULL: nothing was kept yet */
	struct smd_kept *entries; /* entry k at k mod SMD_HISTORY_ENTRIES */
	uint64_t first;
	uint64_t next;
	size_t at;    /* where the next copy goes, */
	size_t freed; /* and where the first entry begins */
	size_t used;  /* by entries, */
	size_t most;  /* and at once so far (smd_context_keeps()) */
};

/*
 * Whether an operation of so many bytes that is dealt so leaves copies when it returns, instead of
 * asking whether all ranks have their results: all ranks decide alike. To ask costs a round trip,
 * in which every rank waits for the slowest, and a copy of 512 KiB about 0.05 ms: less than that
 * where the operation itself takes 0.15 ms or more. Of 1 MiB copies leave the caches, and cost
 * more.
 */
bool smd_history_takes(const struct smd_deal *deal, unsigned nranks, size_t bytes);

/* 0 or -ENOMEM. */
int smd_history_create(struct smd_history *history);
void smd_history_destroy(struct smd_history *history);

static inline struct smd_kept *smd_history_entry(const struct smd_history *history, uint64_t k)
{
	return &history->entries[k % SMD_HISTORY_ENTRIES];
}

static inline bool smd_history_is_empty(const struct smd_history *history)
{
	return history->first == history->next;
}

/* Room for so many bytes in one piece; NULL: there is none now, or no memory. */
uint8_t *smd_history_room(struct smd_history *history, size_t bytes);

/* The entry at `next` is one, with `length` bytes at that room; */
void smd_history_add(struct smd_history *history, const uint8_t *room);
/* or with `bytes` that stay where they are. */
void smd_history_add_outside(struct smd_history *history);

/* Whether all ranks are known to have its result. */
bool smd_kept_is_stable(const struct smd_kept *kept);

/* What all ranks have by now leaves. */
void smd_history_release(struct smd_history *history);

#endif
