/*
 * A communicator on the worker's side: what its operations, flows and paths share.
 *
 * How it is joined, fed, failed and left is group.h's, which sits above them and gives the calls
 * that go upward from here: the receiver's table, `settle`, `end_pieces`, `pump`, `change`,
 * `adopt`, `destroy`, `fault`, `waiter`.
 */
#ifndef SMD_LIBSUMMAND_COMM_H
#define SMD_LIBSUMMAND_COMM_H

#include "worker/libsummand/context.h"
#include "worker/libsummand/epoch_agreement.h"
#include "worker/libsummand/history.h"
#include "worker/libsummand/lead.h"
#include "worker/libsummand/seat.h"
#include "worker/libsummand/staging.h"

struct event;
struct smd_flow;
struct smd_item;
struct smd_epoch_record;
struct smd_epoch_message;
struct smd_epoch_table;
struct smd_exchanges;
struct smd_request;
struct smd_tuning;

#define SMD_COMM_NO_END UINT64_MAX

enum smd_comm_state { SMD_COMM_JOINING, SMD_COMM_ACTIVE, SMD_COMM_FAILED };

/* See epoch.h. */
struct smd_epoch {
	struct smd_receiver receiver; /* first: of its frames, and the owner of what it sends */
	struct smd_comm *comm;
	struct smd_epoch *next; /* the later one */
	unsigned index;
	bool rescues; /* it is one of the communicator's `rescues` */
	uint64_t id;
	uint64_t dead;  /* targets that it is without */
	uint64_t first; /* operation */
	const struct smd_deal *deal;
	struct smd_deal own_deal; /* but for the first epoch, whose deal is the context's */
	uint32_t *weights;        /* one for each remote, */
	int scale;                /* and of chunks (deal.h) */
	uint32_t exchanged;       /* operations of at most so many bytes ranks do among themselves
				     (exchange.h) */
	bool ends_exchanges;      /* ranks have no mesh any more: what they have not done of earlier
				     ones is dealt to it, */
	uint64_t pieces_from;     /* from this piece on */
	uint64_t hash;
	unsigned nremotes;      /* that there were when it was made: later ones have no flows */
	struct smd_flow *flows; /* one for each of them, */
	/* and their windows: apart, because most of these are not touched while little is sent */
	struct smd_flow_send *sends;
	struct smd_remote_buffer *remote_buffers;
	struct smd_advertisement **advertisements;
	unsigned *remotes; /* those that it has, in the order of the deal */
	unsigned nserving;
	struct smd_item *items; /* what lost servers have left undone */
	uint64_t nitems;
	uint64_t next_chunk;
	struct smd_lead lead;
};

struct smd_comm {
	struct smd_epoch base;       /* first: the first epoch */
	struct smd_epoch *now;       /* the last one */
	struct smd_epoch *candidate; /* for the next one, whose streams are being joined; or NULL */
	struct smd_epoch *rescues; /* each may be the next one, of a server outside the table: none of
				      that is left, or was when they were joined (group_rescue.h) */
	struct event *rescue_late; /* other ranks are not waited for there any longer; NULL: none are */
	uint64_t rescue_until_ns;  /* when that is */
	bool rescue_gone;  /* because all that are left have lost a rank, which may have died */
	bool rescue_told;  /* because another rank waits there that has lost all of them: this one
			      has not */
	bool rescue_whole; /* all ranks have come to some server */
	struct smd_error rescue_why; /* what is said if it cannot go on, where a server has said
					that; "": it has not, */
	int rescue_err;              /* and -errno */
	struct smd_context *context;
	char group[SMD_STRING_MAX + 1];
	uint16_t nranks;
	uint16_t rank;
	struct smd_task join;
	struct smd_task leave;
	bool asked; /* JOIN has been said, so LEAVE must be */
	bool begins_again; /* published: while it formed all servers were lost that it knew, others
			      are there */
	uint64_t joins_ns; /* since then, or since who is missing was last logged */
	bool spare; /* shards may refuse to have it while memory is short, and nothing is wrong then */
	struct event
		*leaving;  /* it leaves when all ranks have what it has contributed to, or then */
	uint64_t attempt;  /* of this rank, to join: so that those of two are told apart */
	uint64_t attempts; /* of all ranks, as the first of these shards has said */
	struct smd_remote *joined_first;      /* which is that one */
	TAILQ_HEAD(, smd_request) waiting;    /* to begin, in order: a large one is before them */
	unsigned segments;                    /* in flight (segment.h) */
	struct smd_task advance;              /* more of them may begin: */
	bool advances;                        /* it has been left for the owner */
	TAILQ_HEAD(, smd_request) operations; /* in flight, in order */
	uint64_t next_operation;
	uint64_t ended; /* all ranks have all results of the operations before this one */
	struct smd_history history;
	uint64_t table_bytes; /* as last measured (epoch_memory.h) */
	unsigned holding; /* operations that wait until all ranks have their results */
	struct smd_epoch_agreement agreement;
	struct smd_exchanges *exchanges; /* NULL: none were wanted yet */
	struct smd_tuning *tuning; /* rank 0's; NULL: the table stays as it was declared */
	unsigned nopen;    /* flows that hold back the end of a failed communicator's operations */
	unsigned fetching; /* operations in flight whose path fetches chunks */
	/* The first operation that a shard that has said ABORT has not done all of its chunks of;
	 * those before it may still be done by the others. */
	uint64_t end;
	struct smd_rank_set gone_ranks; /* of which a shard has said GONE */
	bool own_failure; /* it failed because of this process's lanes: others do not know */
	struct smd_stage_waiter waiter;

	unsigned wire_dtype; /* SUMMAND_WIRE: what all-reduces send in that type */
	bool wire_told;      /* the log has it that memory of a device is not */
	void *stream;        /* the caller's: what its operations on device memory follow */

	/* Whether an operation that has all of its results may return: settle.h. */
	bool (*settle)(struct smd_request *operation);
	/* An operation that ranks do among themselves ends, however far it has come. */
	void (*end_pieces)(struct smd_request *operation);
	/* All ranks have what this one has contributed to. */
	void (*drained)(struct smd_comm *comm);
	/* Sends what may be sent. */
	void (*pump)(struct smd_comm *comm);
	/* On its caller's thread: its context is to be destroyed. */
	void (*destroy)(struct smd_comm *comm);
	/* Rank 0: has such a table agreed on. */
	bool (*change)(struct smd_comm *comm, const struct smd_epoch_table *table);
	/* Rank 0: the next epoch is agreed on, which it tells all. */
	void (*record)(struct smd_comm *comm, struct smd_epoch_message *message);
	/* Joins the streams of a candidate: 0 or -errno. */
	int (*stand)(struct smd_comm *comm, uint64_t id, const struct smd_epoch_table *table);
	/* Goes on by the next epoch: the candidate, or another one. */
	void (*adopt)(struct smd_comm *comm, const struct smd_epoch_record *record);
	/* Leaves the candidate's streams. */
	void (*drop)(struct smd_comm *comm);
	/* Leaves the streams of epochs before this one, which no rank needs any more. */
	void (*leave_before)(struct smd_comm *comm, uint32_t index);
	/* group_rescue.h: smd_group_rescue(), smd_group_rescue_gone(), smd_group_rescue_changed(),
	 * smd_group_rescue_all_there(), smd_group_rescue_told(). */
	void (*rescue)(struct smd_comm *comm, uint64_t last);
	bool (*rescue_from_gone)(struct smd_comm *comm, uint64_t last);
	void (*rescue_changed)(struct smd_comm *comm);
	void (*rescue_all_there)(struct smd_comm *comm);
	void (*rescue_from_told)(
		struct smd_comm *comm, unsigned target, const struct smd_frame *frame);
	/* Begins without these servers, which the process goes on to use. */
	void (*exclude)(struct smd_comm *comm, uint64_t targets);

	/* Under the progress's lock: a reason to fail that was found where that cannot be done. */
	struct smd_task fault;
	int fault_err;
	struct smd_error fault_error;

	struct smd_seat seat; /* of its callers */

	/* Of the last epoch, for callers, which may look at it without the lock. */
	_Atomic uint32_t exchanged;

	/* Published, under the progress's lock: */
	unsigned in_flight; /* operations; kept by their callers */
	unsigned unwaited;  /* of requests that have a number (handle.h) */
	enum smd_comm_state state;
	bool settling; /* FAILED, and more may be lost of the same cause: counts as one of `nopen`
			*/
	bool left;
	struct smd_error gone; /* what shards have said of ranks, */
	uint64_t gone_ns;      /* when one first did, */
	bool gone_may_live;    /* and whether these ranks may live */
	int err;               /* the first reason, from when a shard has said ABORT on */
	struct smd_error error;
	char waiting_for[SMD_ERROR_TEXT_MAX]; /* what a shard last said about late ranks; */
	char late[SMD_ERROR_TEXT_MAX];        /* of an operation, since one last ended */
};

/* Has a number in the context, and has not joined. The caller sets the calls that go upward. 0 or
 * -errno with a text. On any thread. */
int smd_comm_make(struct smd_context *context, const char *group, uint16_t nranks, uint16_t rank,
	struct smd_comm **out, struct smd_error *error);

/* A free number for streams of the context, with the progress's lock or without threads. -EMFILE
 * when all are in use. */
int smd_comm_take_number(struct smd_context *context, uint32_t *out);
/* After it has left, on its caller's thread. */
void smd_comm_discard(struct smd_comm *comm);

/* Whether a caller's communicator is one, of this process. 0, or -EINVAL, -EPERM with a text for
 * smd_error_message(). */
int smd_comm_check(const struct smd_comm *comm);

/* On the owner, from inside anything: what waits to begin may do so soon. */
void smd_comm_advance(struct smd_comm *comm);

/* From any thread and from inside anything: the communicator fails soon, and its other ranks hear
 * why. */
void smd_comm_fault(struct smd_comm *comm, int err, const char *text);

/* The same, of this rank's device memory. */
void smd_comm_fault_device(struct smd_comm *comm, int err, const struct smd_error *error);

#endif
