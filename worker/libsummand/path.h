/*
 * How an operation's chunks get from its buffers to the lanes and back: its *path*, a table that is
 * chosen once, when the operation is made (request.c).
 *
 *     host    from and to the caller's buffers: path.c
 *     narrow  the same, in half the bytes: path_narrow.h
 *     staged  device memory, by the card or through pinned memory: path_staged.h
 *     direct  registered device memory, by the card alone: path_direct.h
 *
 * A flow asks the path at each step and never what memory it is. An entry that is NULL has nothing
 * to do, so that host memory costs no call. All on the owner (progress.h).
 */
#ifndef SMD_LIBSUMMAND_PATH_H
#define SMD_LIBSUMMAND_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct smd_flow;
struct smd_flow_send;
struct smd_request;

enum smd_fetch {
	SMD_FETCH_NONE,  /* the chunk need not be fetched, or has been: on to the next */
	SMD_FETCH_BEGUN, /* it is on its way now */
	SMD_FETCH_LATER  /* not now: something must happen first */
};

struct smd_path {
	const char *name;
	/* The buffers are memory of this process: what is sent again is read from there. */
	bool host;

	void (*begin)(struct smd_request *operation);
	/* The operation ends, however far it has come. */
	void (*end)(struct smd_request *operation);

	/* Fetches the chunk, the flow's number `fetched`, ahead of its being sent: its result, which
	 * others lack, or its input. NULL: never. */
	enum smd_fetch (*fetch)(struct smd_flow *flow, struct smd_request *operation,
		uint64_t chunk, bool is_result);
	/* Whether the chunk, the flow's next, can be sent now. NULL: always. */
	bool (*may_send)(struct smd_flow *flow, struct smd_request *operation, uint64_t chunk);
	/* Makes what this rank sends of the chunk, and of those before it, in the operation's
	 * buffer, as soon as it is the next to be sent. NULL: it is there. */
	void (*prepare)(struct smd_request *operation, uint64_t chunk);
	/* The lane no longer needs the memory that the chunk was fetched to. */
	void (*sent)(struct smd_flow_send *send);

	/* Where the lane's card may write the result of the flow's next chunk: `memory`, its place
	 * in the operation, or memory of the path's. It returns NULL: nowhere. NULL: to `memory`,
	 * if that is large enough to be worth it. */
	void *(*place)(struct smd_flow *flow, struct smd_request *operation, void *memory,
		size_t bytes);
	/* Where a result goes that the card has not written, if it does not go to `memory`, its
	 * place in the operation; asked for each of its pieces. It returns NULL: beside that place,
	 * to the lane's memory for that. NULL: there. */
	void *(*receive)(struct smd_flow *flow, struct smd_request *operation, void *memory);
	/* The result is there, written by the card to where place() has said if `direct`. Whether the chunk is done; false:
	 * it will be counted later, or the communicator will fail. NULL: done. */
	bool (*received)(struct smd_flow *flow, struct smd_request *operation, bool direct);
	/* Why what this rank contributes to a chunk that was lost with its server cannot be had
	 * again; NULL: it can. */
	const char *(*why_lost)(const struct smd_request *operation);
	/* Where the processor reads what this rank contributes to all chunks once it has all
	 * results. False: nowhere. NULL: in the operation's buffer. */
	bool (*contribution)(const struct smd_request *operation, const uint8_t **out);
	/* The card may have written part of a result over what this rank sends of the chunk: writes
	 * that again. NULL: a copy is needed for that. */
	void (*restore)(struct smd_request *operation, uint64_t chunk);
	/* All results are there. False: the device does not see them, and the communicator will
	 * fail. NULL: true. */
	bool (*complete)(struct smd_request *operation);
};

extern const struct smd_path smd_path_host;

#endif
