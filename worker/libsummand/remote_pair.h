/*
 * A remote's lane of a transport whose lanes are made: that takes devices of both ends some time,
 * so they take turns. Mostly they are made over another's (PAIR, specs/design/rdma.md): the other
 * one is connected and goes through the handshake, and carries both ends' offers.
 *
 * All on the progress thread.
 */
#ifndef SMD_LIBSUMMAND_REMOTE_PAIR_H
#define SMD_LIBSUMMAND_REMOTE_PAIR_H

#include "worker/libsummand/remote.h"

/* Whether the lanes of that transport are made, over others or not, and not only connected. */
static inline bool smd_transport_is_made(const struct smd_transport_ops *ops)
{
	return ops->offer != NULL;
}

/* What is connected for a lane of the transport that is tried. */
const struct smd_transport_ops *smd_remote_connects_over(const struct smd_remote *remote);

/*
 * Before it connects: whether it may now, or has to wait for others of its context, and is tried
 * again by itself. Until smd_remote_pair_end() it makes others wait, but two seconds at most for a
 * server that says nothing.
 */
bool smd_remote_pair_begin(struct smd_remote *remote);
static inline void smd_remote_pair_give_turn(struct smd_remote *remote)
{
	if (remote->turn_ns) {
		remote->turn_ns = 0;
		remote->owner->npairing--;
		LIST_REMOVE(remote, turn_link);
	}
}
static inline void smd_remote_pair_end(struct smd_remote *remote)
{
	remote->pairs = false;
	smd_remote_pair_give_turn(remote);
}

/* PAIR has come. 0, or -errno with a text: then such a lane cannot be had. */
int smd_remote_on_pair(
	struct smd_remote *remote, const struct smd_frame *frame, struct smd_error *error);

/* WELCOME has come over the lane that should have carried another: that one will do if it may. 0,
 * or -errno with a text. */
int smd_remote_settle_for_carrier(struct smd_remote *remote, struct smd_error *error);

/* Whether processors move the bytes of some lane over a network. */
bool smd_remotes_stream(const struct smd_remotes *remotes);

/* Warns where some lanes are of one transport and others of another: they share one deal, and the
 * slowest decides. */
void smd_remotes_tell_mixed(const struct smd_remotes *remotes);

#endif
