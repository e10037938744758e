/*
 * One rank's part of a chunk, from its header alone: what it must say, and where it goes.
 */
#ifndef SMD_ENGINE_PART_H
#define SMD_ENGINE_PART_H

#include "reduction_server/base/error.h"
#include "reduction_server/wire/frame.h"

struct smd_member;
struct smd_slot;

/*
 * A part has been announced by a member of a communicator: *slot is where it goes, NULL when it
 * shall be discarded because the communicator was aborted over it: the ranks disagree, or it cannot
 * be done. -errno with a text when the peer breaks the protocol.
 */
int smd_part_place(struct smd_member *member, const struct smd_frame *frame, struct smd_slot **slot,
	struct smd_error *error);

#endif
