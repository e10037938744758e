/*
 * A shard as a worker sees it: the lane to it, and the frame that is coming in.
 *
 * A remote knows nothing of communicators. Frames about one go to its *receiver*, which the owner
 * of the remotes finds by number; what happens to the lane is told to the owner. Both are tables of
 * calls, so that nothing here depends on what is built on it.
 */
#ifndef SMD_LIBSUMMAND_REMOTE_H
#define SMD_LIBSUMMAND_REMOTE_H

#include <stdbool.h>
#include <stdint.h>

#include "reduction_server/transport/heartbeat.h"
#include "reduction_server/transport/origin.h"
#include "reduction_server/transport/transport.h"
#include "reduction_server/transport/turns.h"
#include "reduction_server/wire/handshake.h"
#include "worker/libsummand/config.h"
#include "worker/libsummand/fabric.h"
#include "worker/libsummand/lookout.h"
#include "worker/libsummand/lookup.h"
#include "worker/libsummand/progress.h"
#include "worker/libsummand/reconnection.h"
#include "worker/libsummand/stall.h"

struct event;
struct smd_remote;
struct smd_receiver;
struct smd_target;

/* What takes the frames about one communicator. */
struct smd_receiver_ops {
	/* Whether a frame of that kind still means anything to it. */
	bool (*wants)(const struct smd_receiver *receiver, const struct smd_frame *frame);
	/* A result is announced: *payload is where it goes. -EPROTO with a text. */
	int (*on_result)(struct smd_receiver *receiver, struct smd_remote *remote,
		const struct smd_frame *frame, void **payload, struct smd_error *error);
	/* The frame is whole: that result, or JOINED, LEFT, ABORT, GONE, LATE, AGREE, HELD, SHRINK.
	 * -EPROTO with a text. */
	int (*on_frame)(struct smd_receiver *receiver, struct smd_remote *remote,
		const struct smd_frame *frame, const uint8_t *payload, struct smd_error *error);
	/* Whether the shard owes it something, for which all that this takes has left. */
	bool (*is_owed)(const struct smd_receiver *receiver, const struct smd_remote *remote);
	/* The shard ends the lane because no group uses it: whether that may be. What the receiver
	 * has said and got no answer to, it says again on the next lane. */
	bool (*may_rest)(struct smd_receiver *receiver, const struct smd_remote *remote);
	/* A lane is there again. */
	void (*on_lane_back)(struct smd_receiver *receiver, struct smd_remote *remote);
	/* The lane has been closed, and with it all that was advertised on it. */
	void (*on_lane_closed)(struct smd_receiver *receiver, struct smd_remote *remote);
	/* A lane cannot be had or was lost: nothing more will come. Maybe not the first one. */
	void (*on_failed)(struct smd_receiver *receiver, int err, const char *text);
	/* Servers were lost, and others are left: `targets` by number. Their lanes are closed. */
	void (*on_lost)(struct smd_receiver *receiver, uint64_t targets);
	/* A server that was lost, or whose lane has rested, is there again; or could not be
	 * reached. */
	void (*on_returned)(struct smd_receiver *receiver);
	/* A server is being drained: it is to be used no more, soon. Said again from time to time.
	 */
	void (*on_drains)(struct smd_receiver *receiver);
	/* Another rank of the job waits at this server, and has lost all of a table (LOST). */
	void (*on_told_lost)(struct smd_receiver *receiver, const struct smd_remote *remote,
		const struct smd_frame *frame);
	/* Whether it has something begun with the shard. */
	bool (*uses)(const struct smd_receiver *receiver, const struct smd_remote *remote);
	/* Adds what its lanes to other ranks have moved; NULL: it has none. */
	void (*count)(const struct smd_receiver *receiver, struct smd_lane_counts *sum);
	/* What is lost together has been told by now. */
	void (*on_settled)(struct smd_receiver *receiver);
	/* On a caller's thread: its context is to be destroyed, and it must be gone before. */
	void (*end)(struct smd_receiver *receiver);
};

struct smd_receiver {
	const struct smd_receiver_ops *ops;
	uint32_t number; /* the communicator's, in frames */
};

struct smd_remote_owner;

struct smd_remote_owner_ops {
	/* The shard has said WELCOME, for the first time or again. */
	void (*on_welcomed)(struct smd_remote_owner *owner, struct smd_remote *remote);
	/* The shard ends the lane because no group uses it: whether that may be; */
	bool (*may_rest)(struct smd_remote_owner *owner, const struct smd_remote *remote);
	/* and the lane is gone, until smd_remote_wake(). */
	void (*on_rests)(struct smd_remote_owner *owner, struct smd_remote *remote);
	void (*on_lane_closed)(struct smd_remote_owner *owner, struct smd_remote *remote);
	/* The lane cannot be had or was lost, for good. */
	void (*on_failed)(struct smd_remote_owner *owner, struct smd_target *target, int err,
		const char *text);
	/* A lost server that is tried again cannot be had now. */
	void (*on_missed)(struct smd_remote_owner *owner, struct smd_target *target, int err,
		const char *text);
	/* A rank of the job that has reached all servers is in a communicator there. */
	void (*on_others)(struct smd_remote_owner *owner, const struct smd_remote *remote);
	/* The server is being drained, as it has said now or before. */
	void (*on_drains)(struct smd_remote_owner *owner, struct smd_target *target);
	/* Another rank of the job waits at this server, and has lost all of a table (LOST). */
	void (*on_told_lost)(struct smd_remote_owner *owner, const struct smd_remote *remote,
		const struct smd_frame *frame);
	/* Whether the shard owes any of its receivers something. */
	bool (*is_owed)(const struct smd_remote_owner *owner, const struct smd_remote *remote);
	/* Whom a frame of that number is for; NULL: nobody. */
	struct smd_receiver *(*find)(struct smd_remote_owner *owner, uint32_t number);
};

/* What remotes have found out of a transport. */
struct smd_found {
	bool absent;              /* it is nowhere: no lane need try it */
	bool had;                 /* a lane was made: its device is there, or comes again; */
	struct smd_fabric fabric; /* whether something crosses */
	unsigned told;            /* what this process's device lacks, of which it was said */
	uint16_t kinds;           /* of its devices, */
	uint64_t kinds_ns;        /* at that time; 0: they are not known */
};

/* What all remotes of a context share. */
struct smd_remote_owner {
	const struct smd_remote_owner_ops *ops;
	struct smd_config *config;
	struct smd_found found[SMD_TRANSPORTS_MAX]; /* of each of the config's transports */
	struct smd_progress *progress;
	struct smd_origin origin;   /* of the lanes, where it reaches their servers */
	uint64_t deadline_ns;       /* to connect at first, or to wake, */
	unsigned connect_s;         /* which is so long after that began */
	bool failed;                /* a lane that is lost is not tried again */
	unsigned npairing;          /* remotes whose turn it is to pair, */
	LIST_HEAD(, smd_remote) pairing; /* these */
	struct smd_lookout lookout; /* whether their shards are alive */
};

/* One server of the list, and its shards' lanes once it has told how many there are. */
struct smd_target {
	const char *address;              /* or its addresses, "host:port+host:port" */
	unsigned number;                  /* of all servers that were ever named */
	char found[SMD_ADDRESS_TEXT_MAX]; /* what the one that is used stands for; empty: it is not
					     known yet */
	bool doubted; /* it could not be reached there: its name may stand for another by now */
	struct smd_lookup *lookup;    /* NULL: none is under way */
	unsigned nremotes;            /* 1 until shard 0 has said WELCOME */
	struct smd_far_end ends[SMD_TRANSPORTS_MAX]; /* of the fabric of each transport */
	bool made; /* a lane to it was (remote_pair.h): one may be again when it returns */
	bool lost;                    /* told to the owner */
	bool silent;                  /* when it was lost */
	bool known;                   /* its shards are in the list of all remotes */
	bool left;                    /* it was not lost, but drained */
	char why[SMD_ERROR_TEXT_MAX]; /* it was lost the last time */
	struct smd_reconnection reconnection;
	struct smd_remote *remotes[SMD_SHARDS_MAX];
};

/* All shards of all servers, in the order of the deal; none until every server is known. */
struct smd_remotes {
	unsigned count;
	struct smd_remote **each;
};

#define SMD_REMOTE_UNKNOWN UINT32_MAX

struct smd_remote {
	struct smd_remote_owner *owner;
	const struct smd_lane_callbacks *callbacks; /* of its lanes */
	struct smd_target *target;
	uint32_t shard;
	unsigned index;         /* in the list of all remotes; SMD_REMOTE_UNKNOWN: not there yet */
	struct smd_lane *lane;  /* NULL: not connected now */
	struct smd_turns turns; /* the flows', on that lane */
	struct smd_lane_counts ended; /* of its lanes that are closed */
	bool waits;                   /* for the target's address */
	char rail[SMD_ADDRESS_TEXT_MAX]; /* the address of the target's that it has taken in turn, of several; empty: none */
	unsigned tries;                  /* that have failed: the next one is at the next address */
	unsigned transport;           /* of the owner's, the one that is tried or used */
	bool pairs;                   /* the lane is being made over another one (remote_pair.h), */
	bool answered;                /* and the shard has said something of that on it */
	uint64_t turn_ns; /* since then others wait for it to be made (remote_pair.h); 0: none does */
	LIST_ENTRY(smd_remote) turn_link; /* of those */
	bool repeated;       /* the transport that is tried has been tried before, in vain */
	struct event *retry; /* connects again a little later, and elsewhere what does not connect */
	struct smd_looked_at watched; /* is the shard alive? Once it has said WELCOME */
	struct smd_heartbeat heartbeat;
	struct smd_stall stall;
	bool greeted;  /* it has been told HELLO, if only on a lane that has ended, and no more is
			  known */
	bool welcomed; /* on the lane that is there */
	bool drains;   /* the server has said so on it */
	bool abandoned;
	bool rests;   /* the shard has ended the lane because no group used it */
	bool returns; /* it has been welcomed before, by the shard that `welcome` is of */
	struct smd_welcome welcome;
	struct smd_handshake handshake; /* of the lane */
	bool challenged;                /* the shard has said CHALLENGE */
	int unsaid; /* -errno: something could not be said, and the lane ends at the next look */
	bool disbelieved; /* it has not the token, by its WELCOME or PAIR */
	bool refused;     /* this process has not, which it asks for */
	bool others_run;  /* a rank that reaches all servers is in a group there */
	int err;          /* how the last attempt failed */
	char reason[SMD_ERROR_TEXT_MAX]; /* empty: none has, since the lane was last open */

	struct smd_receiver *rx_receiver; /* NULL: the frame is about none that still cares */
	bool rx_result;                   /* a result is coming in for it, and not into the sink */
	uint8_t rx_control[SMD_CONTROL_MAX];
	uint8_t *sink;   /* where results go that are discarded, or moved when they are whole, */
	uint8_t *beside; /* those that come in pieces, */
	const void *beside_of; /* and whose these are */
};

/* Its lane can be used: the shard has said WELCOME on it, and the server is not one that was lost
 * and is only being tried again. */
static inline bool smd_remote_is_there(const struct smd_remote *remote)
{
	return remote->lane && remote->welcomed && !remote->target->lost;
}

/* It is being connected, and its shard lives: it has said something, and may take a while for what
 * the lane needs. */
static inline bool smd_remote_answers(const struct smd_remote *remote)
{
	return remote->lane && !remote->welcomed && (remote->challenged || remote->answered);
}

/* It is being connected, and its host has taken this connection, or the attempt's before it:
 * whoever listens there is no dead process, but may stand still. */
static inline bool smd_remote_is_taken(const struct smd_remote *remote)
{
	return remote->lane && !remote->welcomed && remote->greeted;
}

/* Begins to connect, and goes on trying until the owner's deadline. NULL: out of memory. */
struct smd_remote *smd_remote_create(
	struct smd_remote_owner *owner, struct smd_target *target, uint32_t shard);
void smd_remote_free(struct smd_remote *remote);

/* Connects again, where the lane rests. */
void smd_remote_wake(struct smd_remote *remote);

/* Closes the lane: its server is not used any more, unless it is tried again. */
void smd_remote_abandon(struct smd_remote *remote);

/* Connects once more, in less than a second, to whatever server is there by then: one that is
 * welcomed, or missed. */
void smd_remote_try_again(struct smd_remote *remote, unsigned after_ms);

/* The time to connect is over, and the shard has not said WELCOME. */
void smd_remote_give_up(struct smd_remote *remote);

/* The receiver's buffers are no longer to be used by this lane, as far as that can be had at once.
 * It is also the owner of what it sends (transport.h). */
void smd_remote_cancel(struct smd_remote *remote, struct smd_receiver *receiver);

/* A control frame about a communicator; nothing when the lane is gone, or not welcomed again. */
void smd_remote_send(struct smd_remote *remote, enum smd_frame_kind kind, uint32_t number,
	uint16_t rank, const void *payload, size_t length);

/* The same, of a frame that says more. */
void smd_remote_send_frame(
	struct smd_remote *remote, struct smd_frame *frame, const void *payload, size_t length);

/* The answer to SHRINK: no ordinal from this one on is sent without a new grant. */
void smd_remote_send_shrunk(
	struct smd_remote *remote, uint32_t number, uint16_t rank, uint64_t ordinal);

/* Puts into words what has ended a communicator or a lane: the shard's reason, and before it that
 * this process stood still where it did. */
void smd_remote_explain(
	const struct smd_remote *remote, const char *reason, char out[SMD_ERROR_TEXT_MAX]);

/* Its remotes are free, and the progress has ended. */
void smd_target_end(struct smd_target *target);

/* A server's name in messages: "reduction server 127.0.0.1:4000". */
void smd_target_name(const struct smd_target *target, char out[160]);

#endif
