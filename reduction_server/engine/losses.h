/*
 * A rank that has lost all servers of a communicator's table joins streams at another one, and says
 * LOST there (specs/design/epochs.md, "None of the table is left"). The others may not know yet: a
 * server that stands still tells nobody that it has lost a rank. So the one where it waits tells
 * them, and they come, too.
 */
#ifndef SMD_ENGINE_LOSSES_H
#define SMD_ENGINE_LOSSES_H

struct smd_frame;
struct smd_member;
struct smd_peer;

/* LOST, of the member: tells other workers of its job, if they were not told that, while the
 * streams form. Those that have come ignore it. */
void smd_losses_tell(struct smd_member *member, const struct smd_frame *frame);

/* The worker was not connected when others were told. */
void smd_losses_tell_new(struct smd_peer *peer);

#endif
