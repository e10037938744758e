/*
 * Goes on when no server of a communicator's table is left, and others are there that it has not
 * taken in yet: started again, or added (specs/design/epochs.md). Ranks have no stream left to
 * agree through, so each joins one at every such server that it reaches, under an id of the
 * communicator and the server that all know. A shard says JOINED when all ranks have come; then ranks say
 * SEALED there, and by rank 0's record these streams are the next epoch's. What was lost is done
 * again in them. All on the owner.
 */
#ifndef SMD_LIBSUMMAND_GROUP_RESCUE_H
#define SMD_LIBSUMMAND_GROUP_RESCUE_H

#include <stdbool.h>
#include <stdint.h>

struct smd_comm;
struct smd_frame;

/*
 * None of its table is left. Joins the streams; has those tried at once that were lost before the
 * last ones, and joins more when one of these is there. It fails when none can be reached within
 * 0.5 s (one whose lanes rest has the time in which these wake), and where not all ranks come
 * within the limit of silence and 0.7 s; in poll mode after the time in which groups form.
 *
 * A group in which no shard has said JOINED to this rank cannot have begun anywhere, but in that
 * moment. Then it fails as soon as another server is there, and its caller joins once more, with
 * that one (`begins_again`).
 */
void smd_group_rescue(struct smd_comm *comm, uint64_t last);

/* Something is so of it that was not: a server is there or could not be reached, a shard has said
 * JOINED, streams are over. */
void smd_group_rescue_changed(struct smd_comm *comm);

/*
 * LOST, of some group: another rank waits at the target, and has lost all of its table. If that is
 * this group's, it joins there, too. When all have come they leave what that rank has lost; where
 * not all do in time, this one goes on as before.
 */
void smd_group_rescue_told(struct smd_comm *comm, unsigned target, const struct smd_frame *frame);

/* All ranks have come to some server, and may take their time. */
void smd_group_rescue_all_there(struct smd_comm *comm);

/* All that are left have said GONE. Whether it does so, because others are there. */
bool smd_group_rescue_gone(struct smd_comm *comm, uint64_t last);

#endif
