/*
 * A communicator on the worker's side: what its operations, flows and paths share.
 *
 * How it is joined, fed, failed and left is group.c's, which sits above them and gives the calls
 * that go upward from here: the receiver's table, `pump`, `fault`, `waiter`.
 */
#ifndef SMD_LIBSUMMAND_COMM_H
#define SMD_LIBSUMMAND_COMM_H

#include "worker/libsummand/context.h"
#include "worker/libsummand/staging.h"

struct smd_flow;
struct smd_request;

#define SMD_COMM_NO_END UINT64_MAX

enum smd_comm_state { SMD_COMM_JOINING, SMD_COMM_ACTIVE, SMD_COMM_FAILED };

struct smd_comm {
	struct smd_receiver receiver; /* first: of its frames, and the owner of what it sends */
	struct smd_context *context;
	char group[SMD_STRING_MAX + 1];
	uint16_t nranks;
	uint16_t rank;
	struct smd_task join;
	struct smd_task leave;
	bool asked;                           /* JOIN has been said, so LEAVE must be */
	unsigned njoined;                     /* shards that have said JOINED */
	uint64_t attempt;  /* of this rank, to join: so that those of two are told apart */
	uint64_t attempts; /* of all ranks, as the first of these shards has said */
	struct smd_remote *joined_first; /* which is that one */
	struct smd_flow *flows;               /* one for each remote */
	TAILQ_HEAD(, smd_request) operations; /* in flight, in order */
	uint64_t next_operation;
	uint64_t next_chunk;
	unsigned nopen;    /* flows that hold back the end of a failed communicator's operations */
	unsigned fetching; /* operations in flight whose path fetches chunks */
	/* The first operation that a shard that has said ABORT has not done all of its chunks of;
	 * those before it may still be done by the others. */
	uint64_t end;
	bool own_failure; /* it failed because of this process's lanes: others do not know */
	struct smd_stage_waiter waiter;

	void *stream; /* the caller's: what its operations on device memory follow */

	/* Sends what may be sent. */
	void (*pump)(struct smd_comm *comm);

	/* Under the progress's lock: a reason to fail that was found where that cannot be done. */
	struct smd_task fault;
	int fault_err;
	struct smd_error fault_error;

	/* Published, under the progress's lock: */
	unsigned in_flight; /* operations; kept by their callers */
	unsigned unwaited;  /* of requests that have a number (handle.h) */
	enum smd_comm_state state;
	bool settling; /* FAILED, and more may be lost of the same cause: counts as one of `nopen`
			*/
	bool left;
	int err; /* the first reason, from when a shard has said ABORT on */
	struct smd_error error;
	char waiting_for[SMD_ERROR_TEXT_MAX]; /* what a shard last said about late ranks */
};

/* Has a number in the context, and has not joined. The caller sets the calls that go upward. 0 or
 * -errno with a text. On any thread. */
int smd_comm_make(struct smd_context *context, const char *group, uint16_t nranks, uint16_t rank,
	size_t flow_bytes, struct smd_comm **out, struct smd_error *error);
/* After it has left, on its caller's thread. */
void smd_comm_discard(struct smd_comm *comm);

/* Whether a caller's communicator is one, of this process. 0, or -EINVAL, -EPERM with a text for
 * smd_error_message(). */
int smd_comm_check(const struct smd_comm *comm);

/* From any thread and from inside anything: the communicator fails soon, and its other ranks hear
 * why. */
void smd_comm_fault(struct smd_comm *comm, int err, const char *text);

/* The same, of this rank's device memory. */
void smd_comm_fault_device(struct smd_comm *comm, int err, const struct smd_error *error);

#endif
