/*
 * A communicator on the worker's side: joining, the list of operations, and how it fails.
 *
 * JOINING until every shard has said JOINED, then ACTIVE; FAILED when a shard says ABORT or a lane
 * is lost. A failed communicator cancels what has not begun to leave, sends what has, and only then
 * gives the callers' buffers back, because a lane that is cut in the middle of a frame would be
 * lost for all. Shards that may write results without a further word are told LEAVE first, and
 * the buffers are kept until they have said LEFT.
 */
#ifndef SMD_LIBSUMMAND_COMM_H
#define SMD_LIBSUMMAND_COMM_H

#include "worker/libsummand/context.h"
#include "worker/libsummand/flow.h"
#include "worker/libsummand/operation.h"

enum smd_comm_state { SMD_COMM_JOINING, SMD_COMM_ACTIVE, SMD_COMM_FAILED };

struct smd_comm {
	struct smd_context *context;
	uint32_t number;
	char group[SMD_STRING_MAX + 1];
	uint16_t nranks;
	uint16_t rank;
	struct smd_task join;
	struct smd_task leave;
	bool asked;                           /* JOIN has been said, so LEAVE must be */
	unsigned njoined;                     /* shards that have said JOINED */
	struct smd_flow *flows;               /* one for each remote */
	TAILQ_HEAD(, smd_request) operations; /* in flight, in order */
	uint64_t next_operation;
	uint64_t next_chunk;
	unsigned nexposed;                /* flows that are */
	unsigned on_device;               /* operations in flight with device memory */
	TAILQ_ENTRY(smd_comm) stage_link; /* in the staging's queue, if awaits_stage */
	bool awaits_stage;

	void *stream; /* the caller's: what its operations on device memory follow */

	/* Under the progress's lock: a reason to fail that was found where that cannot be done. */
	struct smd_task fault;
	int fault_err;
	struct smd_error fault_error;

	/* Published, under the progress's lock: */
	enum smd_comm_state state;
	bool left;
	int err;
	struct smd_error error;
	char waiting_for[SMD_ERROR_TEXT_MAX]; /* what a shard last said about late ranks */
};

/* smd_comm_create() with a time-out of its own. */
int smd_comm_create_within(struct smd_context *context, unsigned timeout_s, const char *group,
	int nranks, int rank, struct smd_comm **out);

/* On the owner. */
void smd_comm_joined(struct smd_comm *comm, struct smd_remote *remote, unsigned window);
/* The shard writes no more results of the communicator: it has said so, or its lane is closed. */
void smd_comm_covered(struct smd_comm *comm, struct smd_flow *flow);
void smd_comm_late(struct smd_comm *comm, const char *text);
void smd_comm_fail(struct smd_comm *comm, int err, const char *text);

/* From any thread and from inside anything: the communicator fails soon, and its other ranks hear
 * why. */
void smd_comm_fault(struct smd_comm *comm, int err, const char *text);

/* Sends what may be sent. */
void smd_comm_pump(struct smd_comm *comm);

/* An operation begins: its chunks get their numbers and those that may go now go. */
void smd_comm_start(struct smd_comm *comm, struct smd_request *operation);

/* Takes what has come from shards that owe it results; false when the loop must be asked. */
bool smd_comm_poll(struct smd_comm *comm);

/* The operation that the chunk belongs to, or NULL when it has not been issued yet. */
struct smd_request *smd_comm_find_operation(struct smd_comm *comm, uint64_t chunk);

#endif
