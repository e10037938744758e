/*
 * libsummand: all-reduce, reduce, broadcast and barrier through a pool of reduction servers.
 *
 * The model. A *context* is this process's place in the pool: one lane to every shard of every
 * reduction server. Bytes are moved by the calls that wait, and by a progress thread while nobody
 * does. A *communicator* is an ordered group
 * of ranks, in as many processes, that was created under the same group name; the reduction
 * servers are where its ranks meet, so nothing else has to be exchanged. All communicators of a
 * context share its lanes. An *operation* is one collective call; every rank of a communicator
 * must issue the same operations in the same order.
 *
 * The result of a reduction depends on the inputs and the rank order alone: ranks are combined in
 * the order 0, 1, 2, ..., so the bits are the same on every rank and in every run.
 *
 * Errors. Calls return 0 or -errno; smd_error_message() gives the sentence. When a rank or a server
 * is lost, operations in flight and all later ones of that communicator return the same error,
 * and the sentence names who died:
 *   -EINVAL      an argument, something that has ended already (what a cheap check can tell:
 *                libsummand(3)), or ranks that disagree about an operation (names both)
 *   -ECONNREFUSED, -ETIMEDOUT  a server cannot be reached, or not all ranks came in time
 *   -ECONNRESET  a reduction server or another rank was lost
 *   -ECONNABORTED  a reduction server has dropped this process, which stood still for too long
 *   -EFAULT      a buffer's memory is not this process's, or may not be used so
 *   -EPROTO      a peer sent what must not be sent
 *   -EIO         a CUDA call failed (names rank, call and error)
 *   -EPERM       this process was forked from the one that made the context
 * Nothing waits for ever, except an operation for a rank that is alive and late, or in poll mode.
 *
 * Threads. Different threads may use a context and its communicators at once; calls on one
 * communicator must be made in the same order on every rank, so its caller orders them.
 *
 * Forks. A context is the process's that made it. A forked child keeps none of its connections, so
 * the parent's end is noticed while the child lives; calls on the context return -EPERM there, and
 * destroying it does nothing. The child may make a context of its own.
 *
 * Progress. A blocking call moves its own bytes, on its own thread. Operations that were started
 * and are not waited for are moved by the context's progress thread, which sleeps when nothing is
 * in flight. In poll mode there is no such thread: only calls that start, test and wait move bytes,
 * and servers do not take the silence of such a program for its end, nor that it leaves results
 * unread: when it has stopped, others wait for it and are told who is late. Calls on small
 * operations poll for a moment before they sleep, and let other threads run in between.
 *
 * Memory. Buffers are host memory, or CUDA device memory where the library was built with it; each
 * rank has its own choice, for each buffer. Chunks are copied through pinned memory while others
 * are on the network, or not at all where RDMA cards reach the device's memory. An operation
 * follows what is in a CUDA stream when it is called (smd_comm_set_stream()): its input is read,
 * and its output written, after that. When it is done, so are its copies: what is put into any
 * stream from then on sees the result. Managed memory and registered memory are host memory: no
 * stream is looked at. Operations cannot be captured into graphs: in a stream that is being
 * captured they return -EINVAL, and the capture goes on.
 *
 * Environment (where the options leave a field 0 or NULL):
 *   SUMMAND_REDUCTION_SERVERS  "host:port,host:port,..."; else CLUSTER_SPEC's workerpool2
 *   SUMMAND_SERVERS_FILE       a file whose last line goes on to name servers that are added
 *                              while the process runs
 *   SUMMAND_REPLICA            this process's name in messages; else CLUSTER_SPEC's task,
 *                              else host:pid
 *   SUMMAND_JOB_ID             keeps the group names of different jobs apart; else what the
 *                              launcher says (PMIX_NAMESPACE, MASTER_ADDR and MASTER_PORT, ...)
 *   SUMMAND_ATTEMPT            how often the job was begun again: a later attempt's groups are
 *                              kept apart from those of the earlier ones; default 0
 *   SUMMAND_TOKEN_FILE         holds the token that the servers ask for; for its owner alone,
 *                              or to be read by its group
 *   SUMMAND_TLS                1: lanes are encrypted, to servers with --tls; needs the token
 *   SUMMAND_CONNECT_TIMEOUT    seconds, default 30
 *   SUMMAND_HEARTBEAT_LIMIT    when a silent server is lost: 2 (seconds), 0.5s, 500ms; default 5
 *   SUMMAND_TRANSPORT          auto (default): shm to a server on this host, rdma where there is
 *                              any, else tcp; shm; rdma; tcp
 *   SUMMAND_STAGING_BYTES      most pinned memory of a context for device memory, default 64M
 *   SUMMAND_UNDO_BYTES         most memory of a context for copies of inputs in place, over RDMA,
 *                              in case a server is lost, default 64M
 *   SUMMAND_PROGRESS           thread (default) or poll
 *   SUMMAND_AFFINITY           spread (default): where ranks are at least as many as their
 *                              machine's processors, callers that wait for small operations
 *                              move to these in turns, and stay free to be moved; card: so, and
 *                              the progress thread stays near the network card by which the
 *                              first server is reached; any: neither
 *   SUMMAND_RATES              measured (default): weights and chunks follow what rank 0 sees;
 *                              declared: shards have the weights that servers declare
 *   SUMMAND_WIRE               bf16 or fp16: all-reduces of float32 in host memory send two bytes
 *                              an element (smd_comm_set_wire()); the same on all ranks. float32
 *                              (default)
 *   SUMMAND_ZERO_BLOCKS        on (default without SUMMAND_TLS): blocks of 4 KiB of zeros do not
 *                              cross TCP; off: they do
 *   SUMMAND_EXCHANGE           auto (default): small all-reduces of host memory go from rank to
 *                              rank over TCP where rank 0 finds that faster; off: never; on:
 *                              always
 *   SUMMAND_LOG                error, warn (default), info, debug
 */
#ifndef SUMMAND_H
#define SUMMAND_H

#include <stddef.h>
#include <stdint.h>

#include "summand_types.h" /* enum smd_dtype, enum smd_op */

#ifdef __cplusplus
extern "C" {
#endif

typedef struct smd_context smd_context;
typedef struct smd_comm smd_comm;
typedef struct smd_request smd_request;

/* Who moves the bytes of operations that nobody waits for. */
enum smd_progress_mode {
	SMD_PROGRESS_DEFAULT = 0, /* from the environment */
	SMD_PROGRESS_THREAD = 1,  /* a thread of the context's own */
	SMD_PROGRESS_POLL = 2,    /* nobody: only calls into the context move anything */
};

struct smd_context_options {
	const char *servers;        /* "host:port,..."; NULL: from the environment */
	const char *replica;        /* NULL: from the environment */
	const char *job;            /* NULL: from the environment */
	const char *transport;      /* NULL: from the environment */
	unsigned connect_timeout_s; /* 0: from the environment */
	enum smd_progress_mode progress;
};

/* What a context has moved, since it was created. */
struct smd_stats {
	uint64_t operations;    /* completed */
	uint64_t bytes_reduced; /* sum of the sizes of completed operations */
	uint64_t bytes_sent;    /* payload and headers */
	uint64_t bytes_received;
	double busy_seconds;     /* time during which at least one operation was in flight */
	uint64_t rdma_requests;  /* work requests that sent something over RDMA */
	uint64_t rdma_doorbells; /* calls that posted them */
	uint64_t epochs;         /* changes of the table of servers, of all communicators */
	uint64_t history_bytes;  /* what its communicators have kept at most, in case a server is lost, */
	uint64_t history_limit;  /* of so much that they may keep: 4 MiB for each that has kept any */
	uint64_t undo_bytes;     /* copies of inputs in place, over RDMA, that were held at most, */
	uint64_t undo_limit;     /* of so much */
	uint64_t table_bytes;    /* what tables of servers have taken at most: streams and their windows, */
	uint64_t tables;         /* of so many that a communicator has had at once, at most */
	uint64_t bytes_skipped;  /* of payloads in either direction: blocks of zeros, which do not
				    cross */
	uint64_t exchanges;      /* of the operations those that ranks did among themselves */
};

/*
 * Connects to every shard of every server, or fails and names the server that it could not reach;
 * where other processes of the job run already, it goes on without that one, and warns of it.
 * options may be NULL. Blocks up to the connect time-out.
 */
int smd_context_create(const struct smd_context_options *options, smd_context **out);

/* Closes the lanes and ends the progress thread, if there is one. Communicators that are left are
 * destroyed first. */
void smd_context_destroy(smd_context *context);

void smd_context_stats(smd_context *context, struct smd_stats *out);

/*
 * Registers host memory, which operations will use again and again, with the network cards: lanes
 * over RDMA then never ask whether it is still mapped, nor copy it where they cannot know that
 * (without userfaultfd, as in many containers). Where there is no RDMA it costs a moment and
 * changes nothing; memory that is not registered may be used all the same. From then until
 * smd_deregister() with the same range it must stay mapped, and be the same memory. A part of it
 * may be any buffer. The same range may be registered several times, and is deregistered as often;
 * ranges must not overlap otherwise. The call only declares it: cards take pieces of it when these
 * are first used. No operation in flight may use it when it is deregistered. A context that is
 * destroyed needs no deregistration. 0; -EINVAL, also for memory of a device, which needs no such
 * call; -EFAULT; -ENOMEM; -EPERM. From any thread.
 */
int smd_register(smd_context *context, void *base, size_t bytes);
int smd_deregister(smd_context *context, void *base, size_t bytes);

/*
 * Joins the group as `rank` of `nranks` (2 to 4096; 1 is allowed and reduces nothing away). Returns
 * when all ranks have joined at every shard; -ETIMEDOUT names the ranks that did not come. When a
 * group's ranks have all left, its name may be used again.
 */
int smd_comm_create(smd_context *context, const char *group, int nranks, int rank, smd_comm **out);

/* Leaves the group. Other ranks' later operations fail. Operations in flight fail on all ranks;
 * when this returns, their buffers are the caller's, and their requests need not be waited for. A
 * process may end without it: what all ranks have contributed to is still delivered to all. */
void smd_comm_destroy(smd_comm *comm);

int smd_comm_rank(const smd_comm *comm);
int smd_comm_size(const smd_comm *comm);

/*
 * Operations of the communicator that are called from now on and use device memory follow the work
 * that is in this stream (a cudaStream_t or CUstream of the buffers' device) when they are called.
 * NULL, which is also how it begins: the legacy default stream. SMD_STREAM_NONE: nothing, because
 * the caller has seen to it that its buffers are ready. May be called before each operation, by
 * whoever orders them.
 */
#define SMD_STREAM_NONE ((void *)-1)
void smd_comm_set_stream(smd_comm *comm, void *stream);

/*
 * How all-reduces of float32 in host memory that are called from now on cross the network:
 * SMD_BFLOAT16 or SMD_FLOAT16 in half the bytes, SMD_FLOAT32 as they are. It begins as SUMMAND_WIRE
 * says. Each rank's elements are rounded once, summed in float32 by the servers, and the result is
 * rounded once more, the same on every rank; what an operation that fails has done to recv is not
 * defined. All ranks must choose the same for an operation, else it fails and names two of them.
 * Other types, reduce, broadcast and fewer than 1024 elements are not touched. May be called before
 * each operation, by whoever orders them. 0 or -EINVAL.
 */
int smd_comm_set_wire(smd_comm *comm, enum smd_dtype dtype);

/* What they cross as now, an enum smd_dtype; or -EINVAL. Memory of a device is not narrowed: who has
 * a way to do that there reduces in this type instead, in place, which is the same for the other
 * ranks. */
int smd_comm_wire(smd_comm *comm);

/*
 * All-reduce: recv[i] = send[i] of rank 0 (op) send[i] of rank 1 (op) ... on every rank, for
 * `count` elements. send == recv is in place; otherwise the two must not overlap. Blocks until
 * done.
 */
int smd_allreduce(smd_comm *comm, const void *send, void *recv, size_t count, enum smd_dtype dtype,
	enum smd_op op);

/* Reduce: the same, but only rank `root` gets the result; recv of the others is not used. */
int smd_reduce(smd_comm *comm, const void *send, void *recv, size_t count, enum smd_dtype dtype,
	enum smd_op op, int root);

/* Broadcast: buffer[i] = buffer[i] of rank `root`, on every rank. */
int smd_broadcast(smd_comm *comm, void *buffer, size_t count, enum smd_dtype dtype, int root);

/*
 * The same without blocking. The buffers belong to the library until the request is done: what is
 * sent must not change, what is received must not be read. Every started request must be waited
 * for, once. Of host memory that was not passed before, the call brings in all pages, as touching
 * them would.
 */
int smd_allreduce_start(smd_comm *comm, const void *send, void *recv, size_t count,
	enum smd_dtype dtype, enum smd_op op, smd_request **out);
int smd_reduce_start(smd_comm *comm, const void *send, void *recv, size_t count,
	enum smd_dtype dtype, enum smd_op op, int root, smd_request **out);
int smd_broadcast_start(smd_comm *comm, void *buffer, size_t count, enum smd_dtype dtype, int root,
	smd_request **out);

/* Moves what can be moved now; whether the request is done (1) or in flight (0). Never blocks.
 * -EPERM in a forked child. */
int smd_request_test(smd_request *request);

/* Blocks until the request is done, frees it, and returns how it ended. */
int smd_request_wait(smd_request *request);

/* Returns when every rank of the communicator has called it. */
int smd_barrier(smd_comm *comm);

/*
 * Which ranks an operation in flight waits for, as far as servers have said it since one last
 * ended: they do of those that they have waited for 10 s, and again every 10 s. 1: the text has it,
 * such as "rank 3 (workerpool1-2) is 12 s late for operation 512 of group NAME", cut to `size`
 * bytes with its 0; SMD_LATE_TEXT_MAX are enough. 0: nobody is known to be late, and the text is
 * empty. -EINVAL, -EPERM. Never blocks. From any thread.
 */
#define SMD_LATE_TEXT_MAX 512
int smd_comm_late(smd_comm *comm, char *text, size_t size);

/* Bytes of one element, or 0 for a number that is no type. */
size_t smd_dtype_size(enum smd_dtype dtype);

/* The sentence of the last call that failed in this thread. Never NULL. */
const char *smd_error_message(void);

#ifdef __cplusplus
}
#endif

#endif
