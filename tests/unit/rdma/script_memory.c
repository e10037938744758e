/* Registered memory of the script's device, and a memory watch that has nothing to tell. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "reduction_server/transport/rdma/memory_watch.h"
#include "tests/unit/rdma/script_parts.h"

#define FIRST_KEY 1000u

struct script_region {
	struct ibv_mr mr; /* first */
	uintptr_t begin;
	size_t length;
	int access;
	bool live;
	bool exposed; /* the test's own */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of these: */
static struct script_region **regions; /* by key, none of which is used twice in a test */
static uint32_t nregions;
static uint32_t regions_room;

void script_memory_reset(void)
{
	free(regions);
	regions = NULL;
	regions_room = 0;
	nregions = 0;
}

/* ---- registered memory ---- */

int smd_verbs_domain_create(struct ibv_context *context, struct ibv_pd **out)
{
	int err = script_fault(SCRIPT_domain_create);

	if (err == 0) {
		*out = calloc(1, sizeof(**out));
		(*out)->context = context;
		script.live++;
	}
	return err;
}

void smd_verbs_domain_destroy(struct ibv_pd *domain)
{
	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < nregions; i++) {
		if (regions[i] && regions[i]->mr.pd == domain) {
			script_stop("a domain was destroyed before its memory");
		}
	}
	pthread_mutex_unlock(&lock);
	free(domain);
	script.live--;
}

static struct script_region *region_add(
	struct ibv_pd *domain, void *memory, size_t length, int access)
{
	struct script_region *region = calloc(1, sizeof(*region));

	pthread_mutex_lock(&lock);
	if (nregions == regions_room) {
		regions_room = regions_room ? 2 * regions_room : 64;
		regions = realloc(regions, regions_room * sizeof(struct script_region *));
	}
	region->mr.pd = domain;
	region->mr.lkey = FIRST_KEY + nregions;
	region->mr.rkey = FIRST_KEY + nregions;
	region->begin = (uintptr_t)memory;
	region->length = length;
	region->access = access;
	regions[nregions++] = region;
	pthread_mutex_unlock(&lock);
	return region;
}

int smd_verbs_region_create(
	struct ibv_pd *domain, void *memory, size_t length, int access, struct ibv_mr **out)
{
	int err = script_fault(SCRIPT_region_create);

	if (err == 0) {
		script.last_access = access;
		*out = &region_add(domain, memory, length, access)->mr;
		script.live++;
		script.regions++;
	}
	return err;
}

int smd_verbs_region_create_dmabuf(struct ibv_pd *domain, int fd, uint64_t offset, uint64_t address,
	size_t length, int access, struct ibv_mr **out)
{
	int err = script_fault(SCRIPT_region_create_dmabuf);

	(void)fd;
	(void)offset;
	if (err == 0) {
		*out = &region_add(domain, (void *)(uintptr_t)address, length, access)->mr;
		script.live++;
		script.regions++;
	}
	return err;
}

static void region_remove(uint32_t key)
{
	pthread_mutex_lock(&lock);
	free(regions[key - FIRST_KEY]);
	regions[key - FIRST_KEY] = NULL;
	pthread_mutex_unlock(&lock);
}

void smd_verbs_region_destroy(struct ibv_mr *mr)
{
	script_fault(SCRIPT_region_destroy);
	region_remove(mr->lkey);
	script.live--;
	script.regions--;
}

uint32_t script_expose(void *memory, size_t length)
{
	struct script_region *region =
		region_add(NULL, memory, length, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

	region->exposed = true;
	return region->mr.rkey;
}

void script_hide_all(void)
{
	for (uint32_t i = 0; i < nregions; i++) {
		if (regions[i] && regions[i]->exposed) {
			region_remove(FIRST_KEY + i);
		}
	}
}

/* Whether the key lets these bytes be used so. */
bool script_key_allows(uint32_t key, uint64_t address, uint32_t length, int access)
{
	uint32_t index = key - FIRST_KEY;
	const struct script_region *region;
	bool allows;

	pthread_mutex_lock(&lock);
	region = index < nregions ? regions[index] : NULL;
	allows = region && (region->access & access) == access && address >= region->begin &&
		 length <= region->length && address - region->begin <= region->length - length;
	pthread_mutex_unlock(&lock);
	return allows;
}

/* ---- memory windows ---- */

/* Its key is that of an index, whose lowest 8 bits are chosen anew with each binding. */
struct script_window {
	struct ibv_mw mw; /* first */
	bool open;
	uint32_t bound; /* its key then */
	uintptr_t begin;
	uint64_t length;
	const struct ibv_qp *pair;
	LIST_ENTRY(script_window) link;
};
static LIST_HEAD(, script_window) windows; /* by the same lock */
static uint32_t windows_made;

#define FIRST_WINDOW 0x1000u

int smd_verbs_window_create(struct ibv_pd *domain, struct ibv_mw **out)
{
	int err = script_fault(SCRIPT_window_create);
	struct script_window *window;

	if (err) {
		return err;
	}
	window = calloc(1, sizeof(*window));
	window->mw.pd = domain;
	window->mw.type = IBV_MW_TYPE_2;
	pthread_mutex_lock(&lock);
	window->mw.rkey = (FIRST_WINDOW + windows_made++) << 8;
	LIST_INSERT_HEAD(&windows, window, link);
	pthread_mutex_unlock(&lock);
	script.live++;
	*out = &window->mw;
	return 0;
}

void smd_verbs_window_destroy(struct ibv_mw *mw)
{
	struct script_window *window = (struct script_window *)mw;

	pthread_mutex_lock(&lock);
	LIST_REMOVE(window, link);
	pthread_mutex_unlock(&lock);
	free(window);
	script.live--;
}

/* It is open by that key there. NULL: none is. */
static struct script_window *window_open(uint32_t key, const struct ibv_qp *pair)
{
	struct script_window *window;

	LIST_FOREACH (window, &windows, link) {
		if (window->open && window->bound == key && window->pair == pair) {
			return window;
		}
	}
	return NULL;
}

bool script_window_bind(struct ibv_mw *mw, uint32_t key, const struct ibv_mw_bind_info *to,
	const struct ibv_qp *pair)
{
	struct script_window *window = (struct script_window *)mw;
	bool fits;

	pthread_mutex_lock(&lock);
	fits = !window->open && key >> 8 == mw->rkey >> 8 && key != mw->rkey;
	pthread_mutex_unlock(&lock);
	if (!fits || !script_key_allows(to->mr->rkey, to->addr, (uint32_t)to->length,
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND)) {
		return false;
	}
	pthread_mutex_lock(&lock);
	window->open = true;
	window->begin = to->addr;
	window->length = to->length;
	window->pair = pair;
	window->bound = key;
	pthread_mutex_unlock(&lock);
	return true;
}

bool script_window_close(uint32_t key, const struct ibv_qp *pair)
{
	struct script_window *window;

	pthread_mutex_lock(&lock);
	window = window_open(key, pair);
	if (window) {
		window->open = false;
	}
	pthread_mutex_unlock(&lock);
	return window != NULL;
}

bool script_window_allows(
	uint32_t key, uint64_t address, uint32_t length, const struct ibv_qp *pair)
{
	const struct script_window *window;
	bool allows;

	pthread_mutex_lock(&lock);
	window = window_open(key, pair);
	allows = window && address >= window->begin && length <= window->length &&
		 address - window->begin <= window->length - length;
	pthread_mutex_unlock(&lock);
	return allows;
}

bool script_window_covers(const void *address)
{
	const struct script_window *window;
	bool covers = false;

	pthread_mutex_lock(&lock);
	LIST_FOREACH (window, &windows, link) {
		covers |= window->open && (uintptr_t)address - window->begin < window->length;
	}
	pthread_mutex_unlock(&lock);
	return covers;
}

/* ---- the memory watch: everything can be watched, or nothing, and nothing is ever unmapped ---- */

int smd_memory_watch_start(struct smd_error *error)
{
	return script.unwatched ? smd_error_set(error, ENOSYS, "memory cannot be watched") : 0;
}

int smd_memory_watch_add(const void *address, size_t length)
{
	(void)address;
	(void)length;
	return script.unwatched ? -ENOSYS : 0;
}

bool smd_memory_watch_settle(void)
{
	return true;
}

bool smd_memory_watch_next(uint64_t *cursor, struct smd_memory_range *range)
{
	(void)cursor;
	(void)range;
	return false;
}
