/* The public calls that start, test and wait for operations, and the choice of their paths. */
#include "worker/libsummand/request.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/dtype.h"
#include "reduction_server/kernels/kernels.h"
#include "reduction_server/wire/collective.h"
#include "worker/libsummand/group.h"
#include "worker/libsummand/handle.h"
#include "worker/libsummand/known_memory.h"
#include "worker/libsummand/operation.h"
#include "worker/libsummand/path_direct.h"
#include "worker/libsummand/path_narrow.h"
#include "worker/libsummand/path_staged.h"
#include "worker/libsummand/segment.h"

#define SMALL_BYTES          65536u /* its caller does not sleep at once, and may soon begin another; */
#define SMALL_EXCHANGE_BYTES (1u << 20) /* ranks answer each other sooner than servers do */

static void operation_start(struct smd_task *task)
{
	struct smd_request *operation =
		(struct smd_request *)((char *)task - offsetof(struct smd_request, start));

	smd_group_start(operation);
}

/* ---- on callers' threads ---- */

static int check_buffers(
	const struct smd_request *operation, const char *what, struct smd_error *error)
{
	const struct smd_comm *comm = operation->comm;
	bool sends = smd_collective_sends(operation->collective, operation->root, comm->rank);
	bool receives = smd_collective_receives(operation->collective, operation->root, comm->rank);
	size_t bytes = operation->count * operation->element_bytes;
	const uint8_t *send = operation->send;
	const uint8_t *recv = operation->recv;

	if (bytes && ((sends && !send) || (receives && !recv))) {
		return smd_error_set(error, EINVAL, "%s in group %s: buffers must not be NULL",
			what, comm->group);
	}
	if (sends && receives && send != recv && send < recv + bytes && recv < send + bytes) {
		return smd_error_set(error, EINVAL,
			"%s in group %s: send and recv must be the same or must not overlap", what,
			comm->group);
	}
	return 0;
}

static int check_operation(const struct smd_request *operation, struct smd_error *error)
{
	const char *what = smd_collective_name(operation->collective);
	const struct smd_comm *comm = operation->comm;

	if (operation->element_bytes == 0) {
		return smd_error_set(error, EINVAL,
			"%s in group %s: the element type must be 0 to %d, got %u", what,
			comm->group, SMD_DTYPE_COUNT - 1, operation->dtype);
	}
	if (smd_collective_reduces(operation->collective) &&
		!smd_kernel_find(operation->dtype, operation->op)) {
		return smd_error_set(error, EINVAL,
			"%s in group %s: the reduction must be one of sum, prod, max, min, avg, "
			"got "
			"%s of %s",
			what, comm->group, smd_op_name(operation->op),
			smd_dtype_name(operation->dtype));
	}
	if (operation->root >= comm->nranks) {
		return smd_error_set(error, EINVAL,
			"%s in group %s: the root must be a rank below %u, got %u", what,
			comm->group, comm->nranks, operation->root);
	}
	if (operation->count > SIZE_MAX / 2 / operation->element_bytes) {
		return smd_error_set(error, EINVAL,
			"%s in group %s: count must fit into memory, got %zu", what, comm->group,
			operation->count);
	}
	return check_buffers(operation, what, error);
}

/* The path that suits the memory of its buffers, and where that is if a device's. 0 or -errno with
 * a text. */
static int choose_path(struct smd_request *operation, struct smd_device_location *location,
	struct smd_error *error)
{
	if (smd_path_direct_takes(operation)) {
		return 0;
	}
	operation->path = &smd_path_host;
	return operation->comm->context->staging.ops
		       ? smd_path_staged_choose(operation, location, error)
		       : 0;
}

/* What of its memory is the host's, wherever the other buffer is. */
static int check_memory(const struct smd_request *operation, struct smd_error *error)
{
	const struct smd_comm *comm = operation->comm;
	struct smd_known_memory *known = &comm->context->known;
	size_t bytes = operation->count * operation->element_bytes;
	bool sends = smd_collective_sends(operation->collective, operation->root, comm->rank) &&
		     !operation->reads_device;
	bool receives =
		smd_collective_receives(operation->collective, operation->root, comm->rank) &&
		!operation->writes_device;
	bool in_place = receives && operation->send == operation->recv; /* may be read, too */

	if (bytes == 0) {
		return 0;
	}
	if (sends && !in_place && !smd_known_memory_is_readable(known, operation->send, bytes)) {
		return smd_error_set(error, EFAULT,
			"%s in group %s: "
			"send must be memory that this process can read, got %zu bytes at %p",
			smd_collective_name(operation->collective), comm->group, bytes,
			(const void *)operation->send);
	}
	if (receives && !smd_known_memory_is_writable(known, operation->recv, bytes)) {
		return smd_error_set(error, EFAULT,
			"%s in group %s: "
			"recv must be memory that this process can write, got %zu bytes at %p",
			smd_collective_name(operation->collective), comm->group, bytes,
			(void *)operation->recv);
	}
	return 0;
}

/* Chooses its path, and prepares it, once its memory is known to be what it must. */
static int find_path(struct smd_request *operation, struct smd_error *error)
{
	struct smd_device_location location = {.ordinal = -1};
	int ret = choose_path(operation, &location, error);

	ret = ret ? ret : check_memory(operation, error);
	ret = ret ? ret : smd_path_staged_prepare(operation, &location, error);
	if (ret == 0) {
		smd_path_narrow_choose(operation);
	}
	return ret;
}

/* What a caller asks for. */
struct request_shape {
	enum smd_collective collective;
	int root;
	const void *send;
	void *recv;
	size_t count;
	enum smd_dtype dtype;
	enum smd_op op;
};

/* With a number for its caller, where `handle` is not NULL. */
static int request_create(struct smd_comm *comm, const struct request_shape *shape,
	struct smd_request **out, smd_request **handle)
{
	struct smd_error error = {""};
	struct smd_request *request;
	struct smd_context *context;
	int ret = smd_comm_check(comm);

	if (ret) {
		return ret;
	}
	context = comm->context;
	request = calloc(1, sizeof(*request));
	if (!request) {
		smd_error_set(&error, ENOMEM, "%s in group %s: out of memory",
			smd_collective_name(shape->collective), comm->group);
		return smd_error_remember(-ENOMEM, &error);
	}
	*request = (struct smd_request){
		.comm = comm,
		.numbered = handle != NULL,
		.start.run = operation_start,
		.send = shape->send,
		.recv = shape->recv,
		.count = shape->count,
		.collective = shape->collective,
		.root = (unsigned)shape->root,
		.dtype = shape->dtype,
		.op = shape->op,
		.element_bytes = smd_dtype_bytes(shape->dtype),
		.bytes = shape->count * smd_dtype_bytes(shape->dtype),
	};
	request->large = request->bytes > SMALL_BYTES;
	ret = check_operation(request, &error);
	if (ret == 0) {
		ret = find_path(request, &error);
	}
	if (ret == 0 &&
		(smd_segments_make(request) || (handle && !(*handle = smd_handle_make(request))))) {
		ret = smd_error_set(&error, ENOMEM, "%s in group %s: out of memory",
			smd_collective_name(shape->collective), comm->group);
	}
	if (ret) {
		smd_request_free(request);
		return smd_error_remember(ret, &error);
	}
	smd_progress_lock(&context->progress);
	comm->in_flight++;
	comm->unwaited += request->numbered;
	context->progress.large += request->large;
	if (context->progress.in_flight++ == 0) {
		context->busy_since = smd_clock_seconds();
	}
	smd_progress_unlock(&context->progress);
	*out = request;
	return 0;
}

static bool request_done(const void *arg)
{
	return ((const struct smd_request *)arg)->finished;
}

static bool request_poll(const void *arg)
{
	return smd_group_poll(((const struct smd_request *)arg)->comm);
}

/* Where the ranks crowd a machine its callers have a place (seat.h). */
static void sit_down(struct smd_comm *comm)
{
	uint64_t now = smd_clock_ns();

	if (smd_seat_is_due(&comm->seat, now) &&
		smd_progress_waits_are_short(&comm->context->progress)) {
		(void)smd_seat_take(&comm->seat, now);
	}
}

/* Begins the request if it has not begun, waits for it and frees it. */
static int request_finish(struct smd_request *request, struct smd_task *start)
{
	static const struct smd_goal soon = {.done = request_done, .poll = request_poll};
	static const struct smd_goal some_time = {.done = request_done};
	struct smd_comm *comm = request->comm;
	size_t bytes = request->count * request->element_bytes;
	bool small = bytes <= SMALL_BYTES ||
		     (bytes <= SMALL_EXCHANGE_BYTES && bytes <= request->comm->exchanged);
	struct smd_error error = {""};
	int err;

	if (small && !request->finished) {
		sit_down(comm);
	}
	smd_progress_await(&comm->context->progress, start, small ? &soon : &some_time, request, 0);
	err = request->err;
	while (!smd_path_narrow_finish(request)) {
		sched_yield();
	}
	if (err || request->numbered) {
		smd_progress_lock(&comm->context->progress);
		error = comm->error;
		comm->unwaited -= request->numbered;
		smd_progress_unlock(&comm->context->progress);
	}
	smd_request_free(request);
	return smd_error_remember(err, &error);
}

static int request_run(struct smd_comm *comm, const struct request_shape *shape)
{
	struct smd_request *request = NULL;
	int ret = request_create(comm, shape, &request, NULL);

	return ret ? ret : request_finish(request, &request->start);
}

static int request_start(
	struct smd_comm *comm, const struct request_shape *shape, struct smd_request **out)
{
	struct smd_request *request;
	int ret = smd_comm_check(comm);

	ret = ret ? ret : smd_check_out(out);
	ret = ret ? ret : request_create(comm, shape, &request, out);
	if (ret == 0) {
		smd_progress_post(&comm->context->progress, &request->start);
	}
	return ret;
}

static int refuse_handle(void)
{
	struct smd_error error = {""};

	smd_error_set(&error, EINVAL,
		"request: must have been started and not yet been waited for, nor have been left "
		"by its communicator's end");
	return smd_error_remember(-EINVAL, &error);
}

int smd_request_test(smd_request *handle)
{
	struct smd_request *request = smd_handle_find(handle);
	int ret;

	if (!request) {
		return refuse_handle();
	}
	ret = smd_context_check_process(request->comm->context);
	if (ret) {
		return ret;
	}
	if (!request->finished) {
		smd_progress_poll(&request->comm->context->progress);
	}
	return request->finished && smd_path_narrow_finish(request);
}

int smd_request_wait(smd_request *handle)
{
	struct smd_request *request = smd_handle_find(handle);
	int ret;

	if (!request) {
		return refuse_handle();
	}
	ret = smd_context_check_process(request->comm->context);
	if (ret) {
		return ret;
	}
	request = smd_handle_take(handle);
	return request ? request_finish(request, NULL) : refuse_handle();
}

static struct request_shape allreduce_shape(
	const void *send, void *recv, size_t count, enum smd_dtype dtype, enum smd_op op)
{
	return (struct request_shape){SMD_COLLECTIVE_ALLREDUCE, 0, send, recv, count, dtype, op};
}

int smd_allreduce(smd_comm *comm, const void *send, void *recv, size_t count, enum smd_dtype dtype,
	enum smd_op op)
{
	const struct request_shape shape = allreduce_shape(send, recv, count, dtype, op);

	return request_run(comm, &shape);
}

int smd_allreduce_start(smd_comm *comm, const void *send, void *recv, size_t count,
	enum smd_dtype dtype, enum smd_op op, smd_request **out)
{
	const struct request_shape shape = allreduce_shape(send, recv, count, dtype, op);

	return request_start(comm, &shape, out);
}

static struct request_shape reduce_shape(
	const void *send, void *recv, size_t count, enum smd_dtype dtype, enum smd_op op, int root)
{
	return (struct request_shape){SMD_COLLECTIVE_REDUCE, root, send, recv, count, dtype, op};
}

int smd_reduce(smd_comm *comm, const void *send, void *recv, size_t count, enum smd_dtype dtype,
	enum smd_op op, int root)
{
	const struct request_shape shape = reduce_shape(send, recv, count, dtype, op, root);

	return request_run(comm, &shape);
}

int smd_reduce_start(smd_comm *comm, const void *send, void *recv, size_t count,
	enum smd_dtype dtype, enum smd_op op, int root, smd_request **out)
{
	const struct request_shape shape = reduce_shape(send, recv, count, dtype, op, root);

	return request_start(comm, &shape, out);
}

static struct request_shape broadcast_shape(
	void *buffer, size_t count, enum smd_dtype dtype, int root)
{
	return (struct request_shape){
		SMD_COLLECTIVE_BROADCAST, root, buffer, buffer, count, dtype, SMD_SUM};
}

int smd_broadcast(smd_comm *comm, void *buffer, size_t count, enum smd_dtype dtype, int root)
{
	const struct request_shape shape = broadcast_shape(buffer, count, dtype, root);

	return request_run(comm, &shape);
}

int smd_broadcast_start(smd_comm *comm, void *buffer, size_t count, enum smd_dtype dtype, int root,
	smd_request **out)
{
	const struct request_shape shape = broadcast_shape(buffer, count, dtype, root);

	return request_start(comm, &shape, out);
}

int smd_broadcast_out_of_place_start(smd_comm *comm, const void *send, void *recv, size_t count,
	enum smd_dtype dtype, int root, smd_request **out)
{
	const struct request_shape shape = {
		SMD_COLLECTIVE_BROADCAST_OUT_OF_PLACE, root, send, recv, count, dtype, SMD_SUM};

	return request_start(comm, &shape, out);
}

/* An operation of no elements: nobody gets its result before everybody has issued it. */
int smd_barrier(smd_comm *comm)
{
	const struct request_shape shape = allreduce_shape(NULL, NULL, 0, SMD_INT32, SMD_SUM);

	return request_run(comm, &shape);
}

size_t smd_dtype_size(enum smd_dtype dtype)
{
	return smd_dtype_bytes(dtype);
}
