/* Registers memory that its caller keeps mapped, with every lane. */
#include "worker/libsummand/registration.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

/* What a caller asks of the owner of the progress engine. */
struct registration_task {
	struct smd_task task;
	struct smd_registrations *registrations;
	const void *user;
	struct smd_extent memory;
	const struct smd_dmabuf *dmabuf; /* NULL: the memory is the host's */
	bool adds;                       /* else it removes */
	int ret;
	bool done; /* under the lock */
};

/* That user's; NULL: anybody's. */
static struct smd_registration *registration_find(
	struct smd_registrations *registrations, const void *user, struct smd_extent memory)
{
	struct smd_registration *registration;

	TAILQ_FOREACH (registration, &registrations->list, link) {
		if ((!user || registration->user == user) && registration->base == memory.base &&
			registration->length == memory.length) {
			break;
		}
	}
	return registration;
}

static void registration_undo(struct smd_registrations *registrations, struct smd_extent memory)
{
	for (unsigned i = 0; i < registrations->remotes->count; i++) {
		if (registrations->remotes->each[i]->lane) {
			smd_lane_deregister(registrations->remotes->each[i]->lane, memory);
		}
	}
}

static int registration_apply_to(
	struct smd_lane *lane, struct smd_extent memory, const struct smd_dmabuf *dmabuf)
{
	if (!dmabuf) {
		smd_lane_register(lane, memory, SMD_CHUNK_LIMIT, false);
		return 0;
	}
	return smd_lane_has_card(lane)
		       ? smd_lane_register_device(lane, memory, dmabuf->fd, dmabuf->offset)
		       : -ENOTSUP;
}

/* Whoever has registered that memory. */
static void registration_tell(
	struct smd_registrations *registrations, struct smd_extent memory, bool there)
{
	struct smd_registration *registration;

	smd_progress_lock(registrations->progress);
	TAILQ_FOREACH (registration, &registrations->list, link) {
		if (registration->base == memory.base && registration->length == memory.length) {
			registration->there = there;
		}
	}
	smd_progress_unlock(registrations->progress);
}

/* To all lanes, or none. Those that are being made get it when they are there. */
static int registration_apply(struct smd_registrations *registrations, struct smd_extent memory,
	const struct smd_dmabuf *dmabuf)
{
	int ret = 0;

	for (unsigned i = 0; ret == 0 && i < registrations->remotes->count; i++) {
		if (smd_remote_is_there(registrations->remotes->each[i])) {
			ret = registration_apply_to(
				registrations->remotes->each[i]->lane, memory, dmabuf);
		}
	}
	if (ret) {
		registration_undo(registrations, memory);
	}
	registration_tell(registrations, memory, ret == 0);
	return ret;
}

/* In the place of what was kept. 0 or -errno. */
static int registration_keep(struct smd_registration *registration, const struct smd_dmabuf *dmabuf)
{
	int fd = fcntl(dmabuf->fd, F_DUPFD_CLOEXEC, 0);

	if (fd < 0) {
		return -errno;
	}
	if (registration->dmabuf.fd >= 0) {
		close(registration->dmabuf.fd);
	}
	registration->dmabuf = (struct smd_dmabuf){fd, dmabuf->offset};
	return 0;
}

static void registration_free(struct smd_registration *registration)
{
	if (registration->dmabuf.fd >= 0) {
		close(registration->dmabuf.fd);
	}
	free(registration);
}

/*
 * Its address may stand for other memory by now, when somebody has freed it and has not said so
 * yet: an older dma-buf would go on to mean what was there before. What is under way keeps that.
 */
static int registration_renew(struct smd_registrations *registrations,
	struct smd_registration *registration, const struct smd_dmabuf *dmabuf)
{
	struct smd_extent memory = {registration->base, registration->length};
	int ret = registration_keep(registration, dmabuf);

	if (ret == 0) {
		registration_undo(registrations, memory);
		ret = registration_apply(registrations, memory, dmabuf);
	}
	if (ret == 0) {
		smd_progress_lock(registrations->progress);
		TAILQ_REMOVE(&registrations->list, registration, link);
		TAILQ_INSERT_HEAD(&registrations->list, registration, link);
		smd_progress_unlock(registrations->progress);
	}
	return ret;
}

static int registration_add(struct smd_registrations *registrations, const void *user,
	struct smd_extent memory, const struct smd_dmabuf *dmabuf)
{
	struct smd_registration *registration = registration_find(registrations, user, memory);
	int ret;

	if (registration) {
		ret = registration->device && dmabuf
			      ? registration_renew(registrations, registration, dmabuf)
			      : 0;
		registration->times += ret == 0;
		return ret;
	}
	registration = calloc(1, sizeof(*registration));
	if (!registration) {
		return -ENOMEM;
	}
	*registration = (struct smd_registration){
		.user = user,
		.base = memory.base,
		.length = memory.length,
		.times = 1,
		.device = dmabuf != NULL,
		.there = true,
		.dmabuf = {.fd = -1},
	};
	ret = dmabuf ? registration_keep(registration, dmabuf) : 0;
	if (ret == 0 && registration_find(registrations, NULL, memory)) {
		registration_undo(registrations, memory);
	}
	if (ret == 0) {
		ret = registration_apply(registrations, memory, dmabuf);
	}
	if (ret) {
		registration_free(registration);
		return ret;
	}
	smd_progress_lock(registrations->progress);
	TAILQ_INSERT_HEAD(&registrations->list, registration, link);
	smd_progress_unlock(registrations->progress);
	return 0;
}

static int registration_remove(
	struct smd_registrations *registrations, const void *user, struct smd_extent memory)
{
	struct smd_registration *registration = registration_find(registrations, user, memory);

	if (!registration) {
		return -ENOENT;
	}
	if (--registration->times) {
		return 0;
	}
	smd_progress_lock(registrations->progress);
	TAILQ_REMOVE(&registrations->list, registration, link);
	smd_progress_unlock(registrations->progress);
	if (!registration_find(registrations, NULL, memory)) {
		registration_undo(registrations, memory);
	}
	registration_free(registration);
	return 0;
}

static void registering_run(struct smd_task *task)
{
	struct registration_task *registering = (struct registration_task *)task;
	struct smd_registrations *registrations = registering->registrations;

	if (registering->adds) {
		registering->ret = registration_add(
			registrations, registering->user, registering->memory, registering->dmabuf);
	} else {
		registering->ret = registration_remove(
			registrations, registering->user, registering->memory);
	}
	smd_progress_lock(registrations->progress);
	registering->done = true;
	smd_progress_publish(registrations->progress);
}

static bool registering_done(const void *arg)
{
	return ((const struct registration_task *)arg)->done;
}

static int registering_ask(
	struct smd_registrations *registrations, struct registration_task *registering)
{
	static const struct smd_goal goal = {.done = registering_done};

	registering->task.run = registering_run;
	registering->registrations = registrations;
	smd_progress_await(registrations->progress, &registering->task, &goal, registering, 0);
	return registering->ret;
}

int smd_registrations_add(struct smd_registrations *registrations, const void *user, void *base,
	size_t length, const struct smd_dmabuf *dmabuf)
{
	struct registration_task call = {
		.user = user, .memory = {base, length}, .dmabuf = dmabuf, .adds = true};

	return registering_ask(registrations, &call);
}

int smd_registrations_declare(
	struct smd_registrations *registrations, const void *user, void *base, size_t length)
{
	return registration_add(registrations, user, (struct smd_extent){base, length}, NULL);
}

int smd_registrations_remove(
	struct smd_registrations *registrations, const void *user, void *base, size_t length)
{
	struct registration_task call = {.user = user, .memory = {base, length}};

	return registering_ask(registrations, &call);
}

/* Of what several users have registered what came last is there, and lanes have that only. */
int smd_registrations_restore(struct smd_registrations *registrations, struct smd_lane *lane)
{
	struct smd_registration *registration;
	int ret = 0;

	TAILQ_FOREACH_REVERSE (registration, &registrations->list, smd_registration_list, link) {
		struct smd_extent memory = {registration->base, registration->length};
		bool last = registration_find(registrations, NULL, memory) == registration;

		if (last && registration->there) {
			ret = registration_apply_to(
				lane, memory, registration->device ? &registration->dmabuf : NULL);
		}
		if (ret) {
			break;
		}
	}
	return ret;
}

bool smd_registrations_overlap(
	struct smd_registrations *registrations, const void *base, size_t length)
{
	uintptr_t begin = (uintptr_t)base;
	const struct smd_registration *registration;
	bool overlaps = false;

	smd_progress_lock(registrations->progress);
	TAILQ_FOREACH (registration, &registrations->list, link) {
		uintptr_t other = (uintptr_t)registration->base;
		bool same = other == begin && registration->length == length;

		overlaps = overlaps || (!same && begin < other + registration->length &&
					       other < begin + length);
	}
	smd_progress_unlock(registrations->progress);
	return overlaps;
}

bool smd_registrations_cover_device(
	struct smd_registrations *registrations, const void *memory, size_t bytes)
{
	uintptr_t begin = (uintptr_t)memory;
	const struct smd_registration *registration;
	bool covered = false;

	smd_progress_lock(registrations->progress);
	TAILQ_FOREACH (registration, &registrations->list, link) {
		uintptr_t base = (uintptr_t)registration->base;

		covered = covered || (registration->device && registration->there &&
					     begin >= base && bytes <= registration->length &&
					     begin - base <= registration->length - bytes);
	}
	smd_progress_unlock(registrations->progress);
	return covered;
}

void smd_registrations_create(struct smd_registrations *registrations,
	struct smd_progress *progress, const struct smd_remotes *remotes)
{
	registrations->progress = progress;
	registrations->remotes = remotes;
	TAILQ_INIT(&registrations->list);
}

void smd_registrations_destroy(struct smd_registrations *registrations)
{
	while (!TAILQ_EMPTY(&registrations->list)) {
		struct smd_registration *registration = TAILQ_FIRST(&registrations->list);

		TAILQ_REMOVE(&registrations->list, registration, link);
		registration_free(registration);
	}
}
