/*
 * A worker process at the other end of a lane, as one shard sees it.
 */
#ifndef SMD_ENGINE_PEER_H
#define SMD_ENGINE_PEER_H

#include <stdint.h>
#include <sys/queue.h>

#include "reduction_server/engine/comm.h"
#include "reduction_server/transport/heartbeat.h"
#include "reduction_server/transport/transport.h"
#include "reduction_server/transport/turns.h"
#include "reduction_server/wire/handshake.h"

struct smd_peer {
	struct smd_shard *shard;
	struct smd_lane *lane;
	struct smd_turns turns; /* the members', for results */
	struct smd_hello hello;
	struct smd_heartbeat heartbeat;
	struct smd_member **members; /* by SMD_COMM_INDEX(number) */
	uint32_t nmembers;           /* size of the table */
	uint32_t in_groups;          /* members that are in communicators */
	bool knows_others;           /* it was told that a rank which has reached all servers is in one */
	uint64_t idle_since_ns;      /* since when there are none, where there are none */
	bool told;                   /* while it is closed: it can still be told why */
	bool unanswered; /* what it waits for could not be queued: it must not wait any more */
	/* The frame that is being received: */
	struct smd_member *rx_member;
	struct smd_slot *rx_slot; /* NULL: no part, or one that is discarded */
	uint8_t rx_control[SMD_CONTROL_MAX];
	TAILQ_ENTRY(smd_peer) link;
};

/* Attaches the lane to the shard and says WELCOME, which ends the handshake. On -errno the lane is
 * still the caller's. */
int smd_peer_create(
	struct smd_shard *shard, struct smd_lane *lane, const struct smd_handshake *handshake);

/* All ranks have the results before that ordinal, or (SMD_HELD_ASKS_ALONE) has this one? */
void smd_peer_send_held(struct smd_member *member, uint64_t ordinal, unsigned what);

/* Closes the lane, which has ended; members that have not left are lost to their communicators. */
void smd_peer_close(struct smd_peer *peer, const char *reason);

/* The same, of a lane on which the worker can still be told why: its members get the reason that
 * the others get. */
void smd_peer_dismiss(struct smd_peer *peer, const char *reason);

/* Asks the worker whether it is alive, or closes the lane, when nothing has come for too long. */
void smd_peer_check_alive(struct smd_peer *peer, uint64_t now_ns);

/* Before a new one: where many are in no group, ends the one that has been so longest, if that is
 * long enough for a worker to JOIN. */
void smd_peers_make_room(struct smd_shard *shard);
#define SMD_PEER_IDLE_GRACE_S 5

/* DRAINS to all workers: the server is to end. */
void smd_peers_tell_drains(struct smd_shard *shard);

/* A control frame to a member's worker about its communicator. */
void smd_peer_send(struct smd_member *member, enum smd_frame_kind kind, unsigned window,
	const void *payload, size_t length);

/* JOINED: `attempts` stands for those of all ranks, by which they joined here. */
void smd_peer_send_joined(struct smd_member *member, unsigned window, uint64_t attempts);

/*
 * Whether the member's lane may be on one more communicator that forms: SMD_FORMING_LANE_MAX at
 * once, and of streams of a later epoch one more for each group that the lane is in, because all of
 * them change at once.
 */
bool smd_peer_may_form(const struct smd_member *member, bool later_epoch);

/* The name that the member's worker goes by in messages. */
static inline const char *smd_peer_replica(const struct smd_member *member)
{
	return member->peer->hello.replica;
}

#endif
