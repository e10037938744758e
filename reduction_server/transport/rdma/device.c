/*
 * The RDMA part of an event loop: the connection manager's events, and for each device a completion
 * queue that is polled in batches.
 *
 * A queue is *armed* (a completion will wake the loop), or it is looked at again in the next turn.
 * After a completion it is looked at without sleeping for SPIN_NS, because the next one is mostly
 * near and to be woken costs more; then it is armed, and costs nothing until something comes.
 */
#include <errno.h>
#include <event2/event.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/log.h"
#include "reduction_server/transport/rdma/memory_watch.h"
#include "reduction_server/transport/rdma/rdma.h"

#define BATCH           32
#define TURN_BATCHES    8 /* then others on the loop have their turn */
#define SPIN_NS         20000u
#define BEAT_S          10
#define QUEUE_FIRST     1024u
#define NUMBER_LOW_BITS 16

static pthread_mutex_t loops_lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, rdma_loop) loops = LIST_HEAD_INITIALIZER(loops);

/* ---- loops ---- */

static void loop_on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct rdma_loop *loop = arg;
	struct smd_verbs_event event;

	(void)fd;
	(void)what;
	while (smd_verbs_event_take(loop->channel, &event) == 0) {
		struct rdma_ear *ear = event.context;

		ear->on_event(ear, &event);
	}
}

static struct rdma_loop *loop_find(struct event_base *base)
{
	struct rdma_loop *loop;

	pthread_mutex_lock(&loops_lock);
	LIST_FOREACH (loop, &loops, link) {
		if (loop->base == base) {
			break;
		}
	}
	pthread_mutex_unlock(&loops_lock);
	return loop;
}

static int loop_create(struct event_base *base, struct rdma_loop **out, struct smd_error *error)
{
	struct rdma_loop *loop = calloc(1, sizeof(*loop));
	int ret = -ENOMEM;

	if (!loop) {
		return smd_error_set(error, ENOMEM, "rdma: out of memory");
	}
	loop->base = base;
	LIST_INIT(&loop->hubs);
	ret = smd_verbs_channel_create(&loop->channel);
	if (ret) {
		smd_error_set(error, -ret, "rdma: cannot reach the connection manager: %s",
			strerror(-ret));
		goto free_loop;
	}
	loop->readable =
		event_new(base, loop->channel->fd, EV_READ | EV_PERSIST, loop_on_readable, loop);
	if (!loop->readable || event_add(loop->readable, NULL) != 0) {
		ret = smd_error_set(error, ENOMEM, "rdma: out of memory");
		goto destroy_channel;
	}
	pthread_mutex_lock(&loops_lock);
	LIST_INSERT_HEAD(&loops, loop, link);
	pthread_mutex_unlock(&loops_lock);
	*out = loop;
	return 0;

destroy_channel:
	if (loop->readable) {
		event_free(loop->readable);
	}
	smd_verbs_channel_destroy(loop->channel);
free_loop:
	free(loop);
	return ret;
}

int smd_rdma_loop_get(struct event_base *base, struct rdma_loop **out, struct smd_error *error)
{
	int ret = 0;

	*out = loop_find(base);
	if (!*out) {
		ret = smd_verbs_check(error);
		if (ret == 0) {
			ret = loop_create(base, out, error);
		}
	}
	if (ret == 0) {
		(*out)->users++;
	}
	return ret;
}

void smd_rdma_loop_put(struct rdma_loop *loop)
{
	if (--loop->users) {
		return;
	}
	pthread_mutex_lock(&loops_lock);
	LIST_REMOVE(loop, link);
	pthread_mutex_unlock(&loops_lock);
	event_free(loop->readable);
	smd_verbs_channel_destroy(loop->channel);
	free(loop);
}

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

/* ---- the hub's registered memory ---- */

static int hub_register(void *owner, void *address, size_t length, enum smd_rdma_access access,
	struct smd_rdma_keys *out)
{
	struct rdma_hub *hub = owner;
	int flags = access == SMD_RDMA_WRITE ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE : 0;
	struct ibv_mr *region;
	int ret = smd_verbs_region_create(hub->domain, address, length, flags, &region);
	struct smd_error error = {""};

	if (ret && !hub->refused) {
		hub->refused = true;
		smd_rdma_explain(&error, -ret, "register buffers");
		smd_log(SMD_LOG_WARN, "rdma", "%s; they are copied instead", error.text);
	}
	if (ret == 0) {
		*out = (struct smd_rdma_keys){region, region->lkey, region->rkey};
	}
	return ret;
}

static int hub_register_device(void *owner, void *address, size_t length, int fd, uint64_t offset,
	struct smd_rdma_keys *out)
{
	struct rdma_hub *hub = owner;
	struct ibv_mr *region;
	int ret = smd_verbs_region_create_dmabuf(hub->domain, fd, offset, (uintptr_t)address,
		length, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, &region);

	if (ret == 0) {
		*out = (struct smd_rdma_keys){region, region->lkey, region->rkey};
	}
	return ret;
}

static void hub_deregister(void *owner, void *handle)
{
	(void)owner;
	smd_verbs_region_destroy(handle);
}

/* ---- completions ---- */

/* A batch of the queue, when all of the last one is handled. How many are to be; or -errno. */
static int hub_take(struct rdma_hub *hub)
{
	int n;

	if (hub->polled_begin == hub->polled_end) {
		n = smd_verbs_queue_poll(&hub->queue, hub->polled, BATCH);
		hub->polled_begin = 0;
		hub->polled_end = n > 0 ? (unsigned)n : 0;
		return n;
	}
	return (int)(hub->polled_end - hub->polled_begin);
}

static void hub_look_again(struct rdma_hub *hub)
{
	const struct timeval now = {0, 0};

	evtimer_add(hub->again, &now);
}

bool smd_rdma_hub_keep(struct rdma_hub *hub, const struct ibv_wc *completion)
{
	if (hub->polled_end == hub->polled_room) {
		unsigned room = 2 * hub->polled_room;
		struct ibv_wc *polled = realloc(hub->polled, room * sizeof(*polled));

		if (!polled) {
			return false;
		}
		hub->polled = polled;
		hub->polled_room = room;
	}
	hub->polled[hub->polled_end++] = *completion;
	hub_look_again(hub);
	return true;
}

static void hub_flush(struct rdma_hub *hub)
{
	while (!TAILQ_EMPTY(&hub->dirty)) {
		struct rdma_lane *lane = TAILQ_FIRST(&hub->dirty);

		TAILQ_REMOVE(&hub->dirty, lane, dirty_link);
		lane->dirty = false;
		if (lane->err) {
			smd_rdma_lane_end(lane, lane->err, lane->reason);
		} else {
			smd_rdma_post(lane);
		}
	}
}

void smd_rdma_hub_fail(struct rdma_hub *hub, int err, const char *reason)
{
	for (uint32_t i = 0; i < hub->nlanes; i++) {
		if (hub->lanes[i]) {
			smd_rdma_lane_fail(hub->lanes[i], err, reason);
		}
	}
}

unsigned smd_rdma_hub_poll(struct rdma_hub *hub)
{
	unsigned total = 0;
	int n = BATCH;

	for (unsigned batch = 0; batch < TURN_BATCHES && n >= BATCH; batch++) {
		n = hub_take(hub);
		/* A lane that is closed meanwhile takes its own out, and may add others'. */
		for (int i = 0; i < n && hub->polled_begin != hub->polled_end; i++) {
			struct ibv_wc completion = hub->polled[hub->polled_begin++];

			smd_rdma_completed(hub, &completion);
			total++;
		}
		if (n < 0) {
			smd_rdma_hub_fail(hub, -EIO, "the device's completion queue has failed");
		}
		hub_flush(hub);
	}
	if (total) {
		hub->busy_ns = smd_clock_ns();
	}
	return total;
}

/* Looks at the queue, and sees to it that it is looked at later. */
static void hub_serve(struct rdma_hub *hub)
{
	if (smd_rdma_hub_poll(hub)) {
		hub_look_again(hub);
		return;
	}
	if (smd_clock_ns() - hub->busy_ns < SPIN_NS) {
		sched_yield();
		hub_look_again(hub);
		return;
	}
	/* What came between the last look and the arming wakes nobody. */
	if (smd_verbs_queue_arm(&hub->queue) || smd_rdma_hub_poll(hub)) {
		hub_look_again(hub);
	}
}

static void hub_on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct rdma_hub *hub = arg;

	(void)fd;
	(void)what;
	smd_verbs_queue_quiet(&hub->queue);
	hub_serve(hub);
}

static void hub_on_again(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	hub_serve(arg);
}

static void hub_on_flush(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	hub_flush(arg);
}

/* A machine that is gone acknowledges nothing, which is found out by writing to it. */
static void hub_on_beat(evutil_socket_t fd, short what, void *arg)
{
	struct rdma_hub *hub = arg;

	(void)fd;
	(void)what;
	for (uint32_t i = 0; i < hub->nlanes; i++) {
		if (hub->lanes[i]) {
			smd_rdma_probe(hub->lanes[i]);
		}
	}
}

/* ---- hubs ---- */

static void hub_free_events(struct rdma_hub *hub)
{
	struct event *events[] = {hub->readable, hub->again, hub->flush, hub->beat};

	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
		if (events[i]) {
			event_free(events[i]);
		}
	}
}

static int hub_create_events(struct rdma_hub *hub)
{
	const struct timeval beat = {BEAT_S, 0};
	struct event_base *base = hub->loop->base;
	int ret = -ENOMEM;

	hub->readable =
		event_new(base, hub->queue.channel->fd, EV_READ | EV_PERSIST, hub_on_readable, hub);
	hub->again = evtimer_new(base, hub_on_again, hub);
	hub->flush = event_new(base, -1, EV_PERSIST, hub_on_flush, hub);
	hub->beat = event_new(base, -1, EV_PERSIST, hub_on_beat, hub);
	if (hub->readable && hub->again && hub->flush && hub->beat &&
		event_add(hub->readable, NULL) == 0 && event_add(hub->beat, &beat) == 0) {
		ret = smd_verbs_queue_arm(&hub->queue);
	}
	if (ret) {
		hub_free_events(hub);
	}
	return ret;
}

/* Half of the machine's memory, so that programs that give ever new buffers do not pin all of it.
 */
static uint64_t pinned_most(void)
{
	return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 2;
}

static int hub_create(struct rdma_hub *hub, uint8_t port)
{
	const struct smd_rdma_memory_config memory = {
		.reg = hub_register,
		.reg_device = hub_register_device,
		.dereg = hub_deregister,
		.owner = hub,
		.bytes_max = pinned_most(),
	};
	struct smd_error error = {""};
	int ret = smd_verbs_query(hub->device, port, &hub->limits);

	if (smd_memory_watch_start(&error)) {
		smd_log(SMD_LOG_INFO, "rdma", "buffers are registered for each use anew: %s",
			error.text);
	}
	if (ret == 0) {
		ret = smd_verbs_domain_create(hub->device, &hub->domain);
	}
	if (ret) {
		return ret;
	}
	hub->queue_depth =
		hub->limits.completions < QUEUE_FIRST ? hub->limits.completions : QUEUE_FIRST;
	ret = smd_verbs_queue_create(hub->device, hub->queue_depth, &hub->queue);
	if (ret) {
		goto destroy_domain;
	}
	hub->polled_room = BATCH;
	hub->polled = malloc(BATCH * sizeof(*hub->polled));
	hub->memory = smd_rdma_memory_create(&memory);
	ret = hub->polled && hub->memory ? hub_create_events(hub) : -ENOMEM;
	if (ret) {
		goto destroy_queue;
	}
	return 0;

destroy_queue:
	smd_rdma_memory_destroy(hub->memory);
	free(hub->polled);
	smd_verbs_queue_destroy(&hub->queue);
destroy_domain:
	smd_verbs_domain_destroy(hub->domain);
	return ret;
}

int smd_rdma_hub_get(struct rdma_loop *loop, struct ibv_context *device, uint8_t port,
	struct rdma_hub **out, struct smd_error *error)
{
	struct rdma_hub *hub;
	int ret = -ENOMEM;

	LIST_FOREACH (hub, &loop->hubs, link) {
		if (hub->device == device) {
			hub->users++;
			*out = hub;
			return 0;
		}
	}
	hub = calloc(1, sizeof(*hub));
	if (hub) {
		hub->loop = loop;
		hub->device = device;
		hub->users = 1;
		TAILQ_INIT(&hub->dirty);
		ret = hub_create(hub, port);
	}
	if (ret) {
		free(hub);
		return smd_rdma_explain(error, -ret, "use the device");
	}
	smd_log(SMD_LOG_DEBUG, "rdma", "device %s: path MTU %u, queues of up to %u",
		ibv_get_device_name(device->device), hub->limits.path_mtu, hub->limits.queue_depth);
	LIST_INSERT_HEAD(&loop->hubs, hub, link);
	*out = hub;
	return 0;
}

void smd_rdma_hub_put(struct rdma_hub *hub)
{
	bool removed = hub->removed;

	if (--hub->users) {
		return;
	}
	LIST_REMOVE(hub, link);
	hub_free_events(hub);
	smd_rdma_memory_destroy(hub->memory);
	smd_verbs_queue_destroy(&hub->queue);
	smd_verbs_domain_destroy(hub->domain);
	free(hub->polled);
	free(hub->lanes);
	free(hub->uses);
	free(hub);
	if (removed) {
		smd_verbs_forget_removed();
	}
}

/* ---- the table of lanes ---- */

static int hub_grow_table(struct rdma_hub *hub)
{
	uint32_t size = hub->nlanes ? 2 * hub->nlanes : 16;
	struct rdma_lane **lanes;
	uint32_t *uses;

	if (size > 1u << NUMBER_LOW_BITS) {
		return -ENOSPC;
	}
	lanes = realloc(hub->lanes, size * sizeof(*lanes));
	if (!lanes) {
		return -ENOMEM;
	}
	hub->lanes = lanes;
	uses = realloc(hub->uses, size * sizeof(*uses));
	if (!uses) {
		return -ENOMEM;
	}
	hub->uses = uses;
	memset(lanes + hub->nlanes, 0, (size - hub->nlanes) * sizeof(*lanes));
	memset(uses + hub->nlanes, 0, (size - hub->nlanes) * sizeof(*uses));
	hub->nlanes = size;
	return 0;
}

/* A queue that overflows takes all its lanes with it, so there must be room for the worst. */
static int hub_make_room(struct rdma_hub *hub, uint32_t completions)
{
	uint32_t depth = hub->queue_depth;
	int ret;

	while (depth < hub->queue_used + completions) {
		depth *= 2;
	}
	if (depth > hub->limits.completions) {
		depth = hub->limits.completions;
	}
	if (depth < hub->queue_used + completions) {
		return -ENOSPC;
	}
	if (depth == hub->queue_depth) {
		return 0;
	}
	ret = smd_verbs_queue_resize(&hub->queue, depth);
	if (ret == 0) {
		hub->queue_depth = depth;
	}
	return ret;
}

int smd_rdma_hub_add(struct rdma_hub *hub, struct rdma_lane *lane, uint32_t completions)
{
	uint32_t index = 0;
	int ret = hub_make_room(hub, completions);

	while (ret == 0 && index < hub->nlanes && hub->lanes[index]) {
		index++;
	}
	if (ret == 0 && index == hub->nlanes) {
		ret = hub_grow_table(hub);
	}
	if (ret) {
		return ret;
	}
	hub->queue_used += completions;
	hub->lanes[index] = lane;
	lane->number = ++hub->uses[index] << NUMBER_LOW_BITS | index;
	return 0;
}

void smd_rdma_hub_remove(struct rdma_hub *hub, struct rdma_lane *lane, uint32_t completions)
{
	hub->lanes[lane->number & ((1u << NUMBER_LOW_BITS) - 1)] = NULL;
	hub->queue_used -= completions;
	if (lane->dirty) {
		TAILQ_REMOVE(&hub->dirty, lane, dirty_link);
		lane->dirty = false;
	}
}

struct rdma_lane *smd_rdma_hub_find(const struct rdma_hub *hub, uint32_t number)
{
	uint32_t index = number & ((1u << NUMBER_LOW_BITS) - 1);
	struct rdma_lane *lane = index < hub->nlanes ? hub->lanes[index] : NULL;

	return lane && lane->number == number ? lane : NULL;
}

void smd_rdma_hub_wake(struct rdma_lane *lane)
{
	if (!lane->dirty) {
		lane->dirty = true;
		TAILQ_INSERT_TAIL(&lane->hub->dirty, lane, dirty_link);
		event_active(lane->hub->flush, EV_READ, 1);
	}
}
