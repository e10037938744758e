/*
 * How the ranks of a communicator agree to have a mesh: MEET and MEETS, which shards relay
 * (specs/design/exchange.md). Rank 0 asks, and tells all where all listen. All on the owner.
 */
#ifndef SMD_LIBSUMMAND_MEETING_H
#define SMD_LIBSUMMAND_MEETING_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/libsummand/mesh.h"

struct smd_comm;
struct smd_epoch_message;

#define SMD_MESH_RANKS_MAX 16u

struct smd_meeting {
	uint64_t id; /* 0: rank 0 has not asked */
	bool listed; /* where all listen */
	bool made;   /* this rank has all lanes; */
	bool ready;  /* rank 0: so have all; */
	bool failed; /* some rank cannot, so none does */
	/* Rank 0's: */
	uint32_t placed; /* ranks that have said where they listen, by number, */
	uint32_t meets;  /* and that have all lanes */
	struct smd_mesh_place places[SMD_MESH_RANKS_MAX];
};

/* Rank 0: asks all. False: there will be no mesh. */
bool smd_meeting_begin(struct smd_comm *comm);

/* Rank 0: all ranks have all lanes. */
bool smd_meeting_is_ready(const struct smd_comm *comm);

/* This rank has all lanes, and all of them live. */
bool smd_meeting_holds(const struct smd_comm *comm);

/* MEET or MEETS has come. -EPROTO with a text. */
int smd_meeting_take(struct smd_comm *comm, const struct smd_epoch_message *message,
	struct smd_error *error);

/* This rank's mesh has all lanes, or cannot be had. */
void smd_meeting_made(struct smd_comm *comm, bool all);

#endif
