/*
 * Copies of inputs that a network card may write results over (specs/design/epochs.md): what a lost
 * server's card has written half of is undone, and the input goes to another server.
 *
 * One record for each such chunk that is under way, of a pool of the context's, whose memory is
 * touched as it is used. A record is held while other ranks are waited for, so nobody waits for
 * one: where none is free the card gets no place for the result, which then comes in messages.
 *
 * All on the owner (progress.h).
 */
#ifndef SMD_LIBSUMMAND_UNDO_H
#define SMD_LIBSUMMAND_UNDO_H

#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

struct smd_deal;

struct smd_undo {
	uint8_t *copy;
	uint8_t *place; /* where the card may write, */
	size_t length;  /* so many bytes */
	SLIST_ENTRY(smd_undo) link;
};

struct smd_undos {
	const struct smd_deal *deal; /* says how large a chunk is, once all servers are known */
	uint64_t bytes;              /* of all copies, at most */
	uint8_t *memory;             /* NULL: none has been needed, or there is none */
	size_t mapped;
	struct smd_undo *records;
	unsigned made; /* records, so far */
	unsigned most;
	uint64_t kept;               /* bytes that are held now, */
	uint64_t kept_most;          /* and were at once, at most */
	SLIST_HEAD(, smd_undo) idle; /* of those; the one used last first, which caches have */
};

void smd_undos_create(struct smd_undos *undos, const struct smd_deal *deal, uint64_t bytes);
void smd_undos_destroy(struct smd_undos *undos);

/* Copies what is there, at most a chunk. NULL: no record is free. */
struct smd_undo *smd_undo_keep(struct smd_undos *undos, void *place, size_t length);

/* The result is whole, or nobody needs the input any more. */
void smd_undo_drop(struct smd_undos *undos, struct smd_undo *undo);

/* The card writes there no more, and the result is not whole: its place has the input again. */
void smd_undo_restore(struct smd_undos *undos, struct smd_undo *undo);

#endif
