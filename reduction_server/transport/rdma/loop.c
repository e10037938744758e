/* The RDMA part of an event loop: what its lanes and listeners share, and the lanes that still drain.
 */
#include <errno.h>
#include <event2/event.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/log.h"
#include "reduction_server/transport/rdma/card.h"
#include "reduction_server/transport/rdma/device.h"
#include "reduction_server/transport/rdma/maker.h"
#include "reduction_server/transport/rdma/process.h"

static pthread_mutex_t loops_lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, rdma_loop) loops = LIST_HEAD_INITIALIZER(loops);
/* Whose base is gone, but whose maker's driver does not return. */
static LIST_HEAD(, rdma_loop) left = LIST_HEAD_INITIALIZER(left);

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

/* Loops begin with different cards, and so do processes of one host. */
static unsigned first_turn(void)
{
	static atomic_uint loops_made;

	return atomic_fetch_add(&loops_made, 1) + smd_rdma_process_number();
}

/* Once: a wrong variable is wrong for each lane, and each is tried again. */
static void warn_of_settings(const struct smd_error *error)
{
	static atomic_flag warned = ATOMIC_FLAG_INIT;

	if (!atomic_flag_test_and_set(&warned)) {
		smd_log(SMD_LOG_WARN, "rdma", "%s; RDMA is not used", error->text);
	}
}

static int loop_create(struct event_base *base, struct rdma_loop **out, struct smd_error *error)
{
	struct rdma_loop *loop = calloc(1, sizeof(*loop));
	int ret;

	if (!loop) {
		return smd_error_set(error, ENOMEM, "rdma: out of memory");
	}
	ret = smd_rdma_settings_read(&loop->settings, error);
	if (ret) {
		warn_of_settings(error);
		goto free_loop;
	}
	loop->base = base;
	loop->turn = first_turn();
	LIST_INIT(&loop->devices);
	LIST_INIT(&loop->drains);
	LIST_INIT(&loop->stuck);
	LIST_INIT(&loop->cards);
	pthread_mutex_lock(&loops_lock);
	LIST_INSERT_HEAD(&loops, loop, link);
	pthread_mutex_unlock(&loops_lock);
	*out = loop;
	return 0;

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
	smd_rdma_cards_close(loop);
	if (loop->maker) {
		smd_rdma_maker_destroy(loop->maker);
	}
	if (loop->readable) {
		event_free(loop->readable);
	}
	if (loop->channel) {
		smd_verbs_channel_destroy(loop->channel);
	}
	free(loop);
}

int smd_rdma_loop_open_maker(struct rdma_loop *loop)
{
	return loop->maker ? 0 : smd_rdma_maker_create(loop->base, &loop->maker);
}

void smd_rdma_loop_finish_maker(struct rdma_loop *loop)
{
	smd_rdma_maker_finish(loop->maker, loop->settings.connect_s * SMD_SECOND_NS);
}

static void loop_unprepare(struct rdma_loop *loop)
{
	struct rdma_device *device = LIST_FIRST(&loop->devices);

	while (device) {
		struct rdma_device *next = LIST_NEXT(device, link);

		smd_rdma_device_unprepare(device);
		device = next;
	}
	loop->users -= loop->prepared;
	loop->prepared = false;
}

/* It counts as stuck until it has ended: afterwards it may be gone, also where the maker was given
 * up, or among those that drain again. */
static void loop_end_drain(struct rdma_loop *loop, struct rdma_drain *drain)
{
	LIST_REMOVE(drain, link);
	LIST_INSERT_HEAD(&loop->stuck, drain, link);
	drain->end(drain);
}

/* Who is stuck uses it, and nobody else: another loop may have the same address as its base had.
 * What was prepared stays with it, as the driver that would have to take it back does not return.
 */
static void loop_leave(struct rdma_loop *loop)
{
	pthread_mutex_lock(&loops_lock);
	LIST_REMOVE(loop, link);
	LIST_INSERT_HEAD(&left, loop, link);
	pthread_mutex_unlock(&loops_lock);
}

void smd_rdma_loop_end(struct event_base *base)
{
	struct rdma_loop *loop = loop_find(base);

	if (!loop) {
		return;
	}
	loop->users++; /* so that the last drain does not free it */
	while (!LIST_EMPTY(&loop->drains)) {
		loop_end_drain(loop, LIST_FIRST(&loop->drains));
	}
	if (LIST_EMPTY(&loop->stuck)) {
		loop_unprepare(loop);
	} else {
		loop_leave(loop);
	}
	smd_rdma_loop_put(loop);
}
