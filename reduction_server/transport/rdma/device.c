/*
 * A device as one event loop uses it: its registered memory, and a completion queue that is polled
 * in batches.
 *
 * A queue is *armed* (a completion will wake the loop), or it is looked at again in the next turn.
 * After a completion it is looked at without sleeping for SPIN_NS, because the next one is mostly
 * near and to be woken costs more; then it is armed, and costs nothing until something comes.
 */
#include <errno.h>
#include <event2/event.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/log.h"
#include "reduction_server/transport/rdma/device.h"
#include "reduction_server/transport/rdma/memory_watch.h"
#include "reduction_server/transport/rdma/process.h"

#define BATCH        32
#define TURN_BATCHES 8 /* then others on the loop have their turn */
#define SPIN_NS      20000u
#define BEAT_S       10
/*
 * Completions of 101 lanes, in a megabyte; of a shard's 809, in 8. Many cards cannot make a queue
 * larger afterwards (hns, erdma, mana, qedr, ionic, cxgb4), or do it slowly (bnxt_re), and then have
 * further ones, for which a shard at work would call the driver.
 */
#define QUEUE_FIRST    16384u
#define QUEUE_OF_SHARD 131072u
#define QUEUE_LEAST    256u

int smd_rdma_explain(struct smd_error *error, int err, const char *what)
{
	struct rlimit limit;

	if (err == ENOMEM && getrlimit(RLIMIT_MEMLOCK, &limit) == 0 &&
		limit.rlim_cur != RLIM_INFINITY) {
		return smd_error_set(error, ENOMEM,
			"rdma: cannot %s: the limit of locked memory (ulimit -l) is %llu KiB", what,
			(unsigned long long)limit.rlim_cur / 1024);
	}
	return smd_error_set(error, err, "rdma: cannot %s: %s", what, strerror(err));
}

/* ---- the device's registered memory ---- */

int smd_rdma_device_access(const struct rdma_device *device)
{
	return IBV_ACCESS_LOCAL_WRITE |
	       (device->windows ? IBV_ACCESS_MW_BIND : IBV_ACCESS_REMOTE_WRITE);
}

static int device_register(void *owner, void *address, size_t length, enum smd_rdma_access access,
	struct smd_rdma_keys *out)
{
	struct rdma_device *device = owner;
	int flags = access == SMD_RDMA_WRITE ? smd_rdma_device_access(device) : 0;
	struct ibv_mr *region;
	struct smd_error error = {""};
	int ret;

	/* A completion is never ahead of what was written before; cards that know no such order
	 * ignore the flag. The buffers that headers are written into are registered without. */
	if (device->loop->settings.relaxed) {
		flags |= IBV_ACCESS_RELAXED_ORDERING;
	}
	ret = smd_verbs_region_create(device->domain, address, length, flags, &region);

	if (ret && !device->refused) {
		device->refused = true;
		smd_rdma_explain(&error, -ret, "register buffers");
		smd_log(SMD_LOG_WARN, "rdma", "%s; they are copied instead", error.text);
	}
	if (ret == 0) {
		*out = (struct smd_rdma_keys){region, region->lkey, region->rkey};
	}
	return ret;
}

/* Which the kernel binds no windows to. */
static int device_register_dmabuf(void *owner, void *address, size_t length, int fd,
	uint64_t offset, struct smd_rdma_keys *out)
{
	struct rdma_device *device = owner;
	struct ibv_mr *region;
	int ret;

	if (device->windows) {
		return -EOPNOTSUPP;
	}
	ret = smd_verbs_region_create_dmabuf(device->domain, fd, offset, (uintptr_t)address, length,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, &region);
	if (ret == 0) {
		*out = (struct smd_rdma_keys){region, region->lkey, region->rkey};
	}
	return ret;
}

static void device_deregister(void *owner, void *handle)
{
	(void)owner;
	smd_verbs_region_destroy(handle);
}

/* ---- completions ---- */

/* A batch of the queue, when all of the last one is handled. How many are to be; or -errno. */
static int device_take(struct rdma_device *device)
{
	int n;

	if (device->polled_begin == device->polled_end) {
		n = smd_verbs_queue_poll(&device->queue, device->polled, BATCH);
		device->polled_begin = 0;
		device->polled_end = n > 0 ? (unsigned)n : 0;
		return n;
	}
	return (int)(device->polled_end - device->polled_begin);
}

static void device_poll_again(struct rdma_device *device)
{
	const struct timeval now = {0, 0};

	evtimer_add(device->again, &now);
}

/* A pair that was closed meanwhile had this in the queue already. */
static void device_complete(struct rdma_device *device, const struct ibv_wc *completion)
{
	struct rdma_pair *pair = smd_rdma_device_find(device, (uint32_t)(completion->wr_id >> 32));

	if (pair) {
		pair->ops->completed(pair, completion);
	}
}

/* A completion that is still to be handled, after those that came before. False: out of memory. */
static bool device_keep(struct rdma_device *device, const struct ibv_wc *completion)
{
	if (device->polled_end == device->polled_room) {
		unsigned room = 2 * device->polled_room;
		struct ibv_wc *polled = realloc(device->polled, room * sizeof(*polled));

		if (!polled) {
			return false;
		}
		device->polled = polled;
		device->polled_room = room;
	}
	device->polled[device->polled_end++] = *completion;
	device_poll_again(device);
	return true;
}

/* Completions that were taken out of the queue before. */
static void device_sort_polled(struct rdma_device *device, struct rdma_pair *pair,
	void (*count)(struct rdma_pair *pair, const struct ibv_wc *completion))
{
	unsigned from = device->polled_begin;
	unsigned to = device->polled_end;

	device->polled_end = from;
	for (; from != to; from++) {
		if (device->polled[from].wr_id >> 32 == pair->number) {
			count(pair, &device->polled[from]);
		} else {
			device->polled[device->polled_end++] = device->polled[from];
		}
	}
}

void smd_rdma_device_sort(struct rdma_device *device, struct rdma_pair *pair,
	void (*count)(struct rdma_pair *pair, const struct ibv_wc *completion))
{
	struct ibv_wc completion;

	device_sort_polled(device, pair, count);
	while (smd_verbs_queue_poll(&device->queue, &completion, 1) == 1) {
		if (completion.wr_id >> 32 == pair->number) {
			count(pair, &completion);
		} else if (!device_keep(device, &completion)) {
			struct rdma_pair *other =
				smd_rdma_device_find(device, (uint32_t)(completion.wr_id >> 32));

			if (other) {
				other->ops->fail(other, -ENOMEM, "out of memory");
			}
		}
	}
}

static void device_flush(struct rdma_device *device)
{
	while (!TAILQ_EMPTY(&device->dirty)) {
		struct rdma_pair *pair = TAILQ_FIRST(&device->dirty);

		TAILQ_REMOVE(&device->dirty, pair, dirty_link);
		pair->dirty = false;
		pair->ops->flush(pair);
	}
}

void smd_rdma_device_fail(struct rdma_device *device, int err, const char *reason)
{
	for (uint32_t i = 0; i < device->npairs; i++) {
		if (device->pairs[i]) {
			device->pairs[i]->ops->fail(device->pairs[i], err, reason);
		}
	}
}

void smd_rdma_device_fail_queue(struct rdma_device *device)
{
	if (device->failed) {
		return;
	}
	device->failed = true;
	smd_rdma_device_fail(device, -EIO, "the device's completion queue has failed");
	device_poll_again(device); /* who is at work on it now is through by then */
}

void smd_rdma_device_fail_pair(
	struct rdma_device *device, const struct ibv_qp *qp, int err, const char *reason)
{
	for (uint32_t i = 0; i < device->npairs; i++) {
		if (device->pairs[i] && device->pairs[i]->qp == qp) {
			device->pairs[i]->ops->fail(device->pairs[i], err, reason);
		}
	}
}

unsigned smd_rdma_device_poll(struct rdma_device *device)
{
	unsigned total = 0;
	int n = BATCH;

	for (unsigned batch = 0; batch < TURN_BATCHES && n >= BATCH; batch++) {
		n = device_take(device);
		/* A lane that is closed meanwhile takes its own out, and may add others'. */
		for (int i = 0; i < n && device->polled_begin != device->polled_end; i++) {
			struct ibv_wc completion = device->polled[device->polled_begin++];

			device_complete(device, &completion);
			total++;
		}
		if (n < 0) {
			smd_rdma_device_fail_queue(device);
		}
		device_flush(device);
	}
	if (total) {
		device->busy_ns = smd_clock_ns();
	}
	return total;
}

/* Looks at the queue, and sees to it that it is looked at later, unless nothing comes any more. */
static void device_serve(struct rdma_device *device)
{
	if (device->failed) {
		return;
	}
	if (smd_rdma_device_poll(device)) {
		device_poll_again(device);
		return;
	}
	if (smd_clock_ns() - device->busy_ns < SPIN_NS) {
		sched_yield();
		device_poll_again(device);
		return;
	}
	/* What came between the last look and the arming wakes nobody. */
	if (smd_verbs_queue_arm(&device->queue) || smd_rdma_device_poll(device)) {
		device_poll_again(device);
	}
}

static void device_on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct rdma_device *device = arg;

	(void)fd;
	(void)what;
	smd_verbs_queue_quiet(&device->queue);
	device_serve(device);
}

static void device_on_again(evutil_socket_t fd, short what, void *arg)
{
	struct rdma_device *device = arg;

	(void)fd;
	(void)what;
	if (device->failed) {
		smd_rdma_device_unprepare(device);
	} else {
		device_serve(device);
	}
}

static void device_on_flush(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	device_flush(arg);
}

/* A machine that is gone acknowledges nothing, which is found out by writing to it. */
static void device_on_beat(evutil_socket_t fd, short what, void *arg)
{
	struct rdma_device *device = arg;

	(void)fd;
	(void)what;
	for (uint32_t i = 0; i < device->npairs; i++) {
		if (device->pairs[i]) {
			device->pairs[i]->ops->probe(device->pairs[i]);
		}
	}
}

/* ---- devices ---- */

static void device_free_events(struct rdma_device *device)
{
	struct event *events[] = {device->readable, device->again, device->flush, device->beat};

	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
		if (events[i]) {
			event_free(events[i]);
		}
	}
}

static int device_create_events(struct rdma_device *device)
{
	const struct timeval beat = {BEAT_S, 0};
	struct event_base *base = device->loop->base;
	int ret = -ENOMEM;

	device->readable = event_new(
		base, device->queue.channel->fd, EV_READ | EV_PERSIST, device_on_readable, device);
	device->again = evtimer_new(base, device_on_again, device);
	device->flush = event_new(base, -1, EV_PERSIST, device_on_flush, device);
	device->beat = event_new(base, -1, EV_PERSIST, device_on_beat, device);
	if (device->readable && device->again && device->flush && device->beat &&
		event_add(device->readable, NULL) == 0 && event_add(device->beat, &beat) == 0) {
		ret = smd_verbs_queue_arm(&device->queue);
	}
	if (ret) {
		device_free_events(device);
	}
	return ret;
}

/* Each queue wakes another processor, where the device has several to choose from; and those of
 * another process on the host others. */
static int choose_vector(const struct ibv_context *context)
{
	static atomic_uint queues;
	unsigned vectors = context->num_comp_vectors > 0 ? (unsigned)context->num_comp_vectors : 1;

	return (int)((atomic_fetch_add(&queues, 1) + smd_rdma_process_number()) % vectors);
}

/* Large at once; smaller where so much cannot be had, as of locked memory. */
static int device_create_queue(struct rdma_device *device)
{
	uint32_t most = device->loop->serves ? QUEUE_OF_SHARD : QUEUE_FIRST;
	int vector = choose_vector(device->context);
	int ret;

	device->queue_depth =
		device->limits.completions < most ? device->limits.completions : most;
	ret = smd_verbs_queue_create(
		device->context, device->queue_depth, vector, &device->queue);
	while (ret && device->queue_depth / 2 >= QUEUE_LEAST) {
		device->queue_depth /= 2;
		ret = smd_verbs_queue_create(
			device->context, device->queue_depth, vector, &device->queue);
	}
	return ret;
}

/* What there must be; NULL: nothing is missing. */
static const char *device_lacks(const struct rdma_device *device)
{
	if (!device->limits.immediate) { /* headers could not be told of */
		return "be InfiniBand or RoCE; it has no writes with immediate data";
	}
	return device->windows && !device->limits.windows
		       ? "have memory windows of type 2B, as SUMMAND_RDMA_WINDOWS=1 asks for"
		       : NULL;
}

/* NULL: there was no memory for it. */
static int device_explain(const struct rdma_device *device, int ret, struct smd_error *error)
{
	const char *lacks = device && ret == -ENOTSUP ? device_lacks(device) : NULL;

	return lacks ? smd_error_set(error, ENOTSUP, "rdma: %s must %s",
			       ibv_get_device_name(device->context->device), lacks)
		     : smd_rdma_explain(error, -ret, "use the device");
}

/* -ENOTSUP: it lacks something. */
static int device_query(struct rdma_device *device, uint8_t port)
{
	int ret = smd_verbs_query(device->context, port, &device->limits);

	return ret == 0 && device_lacks(device) ? -ENOTSUP : ret;
}

/* Some cards say that they have windows, and their library makes none. */
static int device_try_window(struct rdma_device *device)
{
	struct ibv_mw *window;
	int ret = device->windows ? smd_verbs_window_create(device->domain, &window) : 0;

	if (ret == 0 && device->windows) {
		smd_verbs_window_destroy(window);
	}
	device->limits.windows = device->limits.windows && ret == 0;
	return ret == -EOPNOTSUPP || ret == -ENOSYS ? -ENOTSUP : ret;
}

static void device_tell_unwatched(const struct rdma_device *device, const char *why)
{
	const uint64_t bounce = device->loop->settings.bounce;

	if (bounce) {
		smd_log(SMD_LOG_INFO, "rdma",
			"registration cache disabled: %s; buffers are copied through at most %llu "
			"MiB of registered memory",
			why, (unsigned long long)bounce >> 20);
	} else {
		smd_log(SMD_LOG_INFO, "rdma",
			"registration cache disabled: %s; each chunk's buffer is registered "
			"anew, as SUMMAND_RDMA_BOUNCE is 0",
			why);
	}
}

static int device_create(struct rdma_device *device, uint8_t port)
{
	const struct smd_rdma_memory_config memory = {
		.reg = device_register,
		.reg_device = device_register_dmabuf,
		.dereg = device_deregister,
		.owner = device,
		.bytes_max = device->loop->settings.cache,
		.bounce_max = device->loop->settings.bounce,
		.node = device->buffers.node,
		/* So many small ones, beside as many pieces as there is room for. */
		.entries_max = SMD_RDMA_MEMORY_ENTRIES_DEFAULT +
			       (unsigned)(device->loop->settings.cache / SMD_RDMA_MEMORY_PIECE),
	};
	struct smd_error error = {""};
	int ret = device_query(device, port);
	bool watches = smd_memory_watch_start(&error) == 0;

	if (!watches) {
		device_tell_unwatched(device, error.text);
	}
	if (ret == 0) {
		ret = smd_verbs_domain_create(device->context, &device->domain);
	}
	if (ret) {
		return ret;
	}
	ret = device_try_window(device);
	if (ret) {
		goto destroy_domain;
	}
	ret = device_create_queue(device);
	if (ret) {
		goto destroy_domain;
	}
	device->polled_room = BATCH;
	device->polled = malloc(BATCH * sizeof(*device->polled));
	device->memory = smd_rdma_memory_create(&memory);
	ret = device->polled && device->memory ? device_create_events(device) : -ENOMEM;
	if (ret) {
		goto destroy_queue;
	}
	if (!watches && !device->loop->serves) { /* a shard's pool is registered, and needs no slots */
		smd_rdma_memory_prepare_bounce(device->memory);
	}
	return 0;

destroy_queue:
	smd_rdma_memory_destroy(device->memory);
	free(device->polled);
	smd_verbs_queue_destroy(&device->queue);
destroy_domain:
	smd_verbs_domain_destroy(device->domain);
	return ret;
}

int smd_rdma_device_get(struct rdma_loop *loop, struct ibv_context *context, uint8_t port,
	bool windows, uint32_t completions, struct rdma_device **out, struct smd_error *error)
{
	struct rdma_device *device;
	int ret = -ENOMEM;

	LIST_FOREACH (device, &loop->devices, link) {
		if (device->context == context && device->windows == windows && !device->failed &&
			smd_rdma_device_make_room(device, completions) == 0) {
			device->users++;
			*out = device;
			return 0;
		}
	}
	device = calloc(1, sizeof(*device));
	if (device) {
		device->loop = loop;
		device->context = context;
		device->windows = windows;
		device->users = 1;
		TAILQ_INIT(&device->dirty);
		LIST_INIT(&device->buffers.slabs);
		device->buffers.node = smd_verbs_node("", ibv_get_device_name(context->device));
		ret = device_create(device, port);
	}
	if (ret) {
		ret = device_explain(device, ret, error);
		free(device);
		return ret;
	}
	smd_log(SMD_LOG_DEBUG, "rdma", "device %s: path MTU %u, queues of up to %u",
		ibv_get_device_name(context->device), 128u << device->limits.mtu,
		device->limits.queue_depth);
	LIST_INSERT_HEAD(&loop->devices, device, link);
	*out = device;
	return 0;
}

void smd_rdma_device_put(struct rdma_device *device)
{
	bool removed = device->removed;

	if (--device->users) {
		return;
	}
	LIST_REMOVE(device, link);
	device_free_events(device);
	smd_rdma_memory_destroy(device->memory);
	smd_rdma_buffers_free(&device->buffers);
	smd_verbs_queue_destroy(&device->queue);
	smd_verbs_domain_destroy(device->domain);
	free(device->polled);
	free(device->pairs);
	free(device->uses);
	free(device);
	if (removed) {
		smd_verbs_forget_removed();
	}
}

void smd_rdma_device_keep(struct rdma_device *device)
{
	if (!device->prepared) {
		device->prepared = true;
		device->users++;
	}
}

void smd_rdma_device_unprepare(struct rdma_device *device)
{
	if (device->prepared) {
		device->prepared = false;
		smd_rdma_device_put(device);
	}
}
