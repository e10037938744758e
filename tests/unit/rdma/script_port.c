/* The script's devices as they are used without the connection manager: their ports, their own events,
 * and queue pairs that find each other by their numbers. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "tests/unit/rdma/script_parts.h"

#define EVENTS_MOST 8

static struct ibv_async_event events[EVENTS_MOST];
static unsigned nevents;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of these: */
static LIST_HEAD(, script_id) by_hand = LIST_HEAD_INITIALIZER(by_hand);
static struct script_id gone = {.by_hand = true}; /* whom nobody answers for any more */

/* ---- the device ---- */

int smd_verbs_device_open(const char *name, struct ibv_context **out)
{
	struct ibv_context *device = script_devices;
	int err = script_fault(SCRIPT_device_open);

	while (device < script_devices + SCRIPT_DEVICES &&
		strcmp(name, ibv_get_device_name(device->device)) != 0) {
		device++;
	}
	if (err || device == script_devices + SCRIPT_DEVICES) {
		return err ? err : -ENODEV;
	}
	device->async_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	script.live++;
	*out = device;
	return 0;
}

void smd_verbs_device_close(struct ibv_context *device)
{
	close(device->async_fd);
	nevents = 0;
	script.live--;
}

int smd_verbs_ports(const char *root, struct smd_verbs_port **out)
{
	int err = script_fault(SCRIPT_ports);

	(void)root;
	*out = err ? NULL : malloc(sizeof(script.ports));
	if (*out) {
		memcpy(*out, script.ports, sizeof(script.ports));
	}
	return err ? err : script.nports;
}

int smd_verbs_node(const char *root, const char *name)
{
	(void)root;
	(void)name;
	return script.node;
}

void script_device_tell(enum ibv_event_type type, struct ibv_qp *pair)
{
	const uint64_t one = 1;
	struct ibv_async_event event = {.event_type = type};

	if (pair) {
		event.element.qp = pair;
	} else {
		event.element.port_num = 1;
	}
	events[nevents++ % EVENTS_MOST] = event;
	(void)!write(script_devices[0].async_fd, &one, sizeof(one));
}

int smd_verbs_device_event_take(struct ibv_context *device, struct ibv_async_event *out)
{
	uint64_t n;

	(void)!read(device->async_fd, &n, sizeof(n));
	if (nevents == 0) {
		return -EAGAIN;
	}
	*out = events[0];
	memmove(events, events + 1, --nevents * sizeof(*events));
	return 0;
}

/* ---- queue pairs ---- */

struct script_id *script_by_hand_create(uint32_t number)
{
	struct script_id *id = calloc(1, sizeof(*id));

	id->by_hand = true;
	id->number = number;
	pthread_mutex_lock(&lock);
	LIST_INSERT_HEAD(&by_hand, id, link);
	pthread_mutex_unlock(&lock);
	return id;
}

void script_by_hand_destroy(struct script_id *id)
{
	struct script_id *other;

	pthread_mutex_lock(&lock);
	LIST_REMOVE(id, link);
	LIST_FOREACH (other, &by_hand, link) {
		if (other->peer == id) {
			other->peer = &gone;
		}
	}
	pthread_mutex_unlock(&lock);
	free(id);
}

int smd_verbs_pair_init(struct ibv_qp *pair, uint8_t port, uint16_t pkey)
{
	script.pkey = pkey;
	if (port != 1 || !script_id_of(script_id_of_pair(pair))->by_hand) {
		script_stop("a queue pair is made ready on another port, or by two");
	}
	return script_fault(SCRIPT_pair_init);
}

int smd_verbs_pair_join(struct ibv_qp *pair, const struct smd_verbs_path *path)
{
	struct script_id *id = script_id_of(script_id_of_pair(pair));
	struct script_id *other;
	int err = script_fault(SCRIPT_pair_join);

	script.path = *path;
	if (err) {
		return err;
	}
	pthread_mutex_lock(&lock);
	id->joined = true;
	LIST_FOREACH (other, &by_hand, link) {
		if (other->number == path->number) {
			id->peer = other;
		}
	}
	pthread_mutex_unlock(&lock);
	return 0;
}
