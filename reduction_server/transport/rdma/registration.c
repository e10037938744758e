/* Finds registered memory, registers what is missing, and drops what is not good any more. */
#include "reduction_server/transport/rdma/registration.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/transport/rdma/bounce.h"
#include "reduction_server/transport/rdma/memory_watch.h"
#include "reduction_server/transport/rdma/refusals.h"

TAILQ_HEAD(region_list, smd_rdma_region);

/* Memory that is registered piece by piece when it is used. */
struct registered {
	struct smd_memory_range range;
	size_t piece;
	size_t largest;
	size_t count;
	bool device; /* memory of a device: one piece, which is there from the beginning */
	TAILQ_ENTRY(registered) link;
	struct smd_rdma_region *pieces[]; /* NULL: not used yet */
};
TAILQ_HEAD(registered_list, registered);

struct smd_rdma_memory {
	struct smd_rdma_memory_config config;
	uint64_t cursor;               /* in what the memory watch has told */
	struct region_list regions;    /* of callers' buffers, those found last first; */
	struct smd_region_index index; /* the same, as they are found */
	unsigned entries;              /* in the list */
	uint64_t bytes;                /* of them */
	struct registered_list registered;
	struct smd_rdma_bounce bounce;
	struct smd_rdma_refusals refusals;
	struct smd_rdma_memory_counts counts;
};

static struct smd_memory_range range_of(const void *address, size_t length)
{
	return (struct smd_memory_range){(uintptr_t)address, (uintptr_t)address + length};
}

/* The piece of a buffer that `range` begins in, and so much more that all of `range` is in it. */
static struct smd_memory_range range_piece(
	struct smd_memory_range buffer, struct smd_memory_range range, size_t piece, size_t overlap)
{
	size_t before = (range.begin - buffer.begin) / piece * piece;
	size_t length = buffer.end - buffer.begin - before;
	struct smd_memory_range out;

	if (length > piece && length - piece > overlap) {
		length = piece + overlap;
	}
	out.begin = buffer.begin + before;
	out.end = out.begin + length > range.end ? out.begin + length : range.end;
	return out;
}

/* ---- a region ---- */

/* What stands for memory of a device. */
struct dmabuf {
	int fd;
	uint64_t offset;
};

/* NULL dmabuf: it is the host's. */
static int region_register(struct smd_rdma_region *region, const struct dmabuf *dmabuf)
{
	const struct smd_rdma_memory_config *config = &region->memory->config;
	void *address = (void *)region->node.begin;
	size_t length = region->node.end - region->node.begin;

	if (!dmabuf) {
		return config->reg(config->owner, address, length,
			(enum smd_rdma_access)region->node.access, &region->keys);
	}
	return config->reg_device ? config->reg_device(config->owner, address, length, dmabuf->fd,
					    dmabuf->offset, &region->keys)
				  : -ENOTSUP;
}

_Static_assert(SMD_RDMA_WRITE + 1 == SMD_REGION_ACCESSES, "the index knows each kind of access");

static int region_create(struct smd_rdma_memory *memory, struct smd_memory_range range,
	enum smd_rdma_access access, const struct dmabuf *dmabuf, struct smd_rdma_region **out)
{
	struct smd_rdma_region *region = calloc(1, sizeof(*region));
	int ret;

	if (!region) {
		return -ENOMEM;
	}
	region->memory = memory;
	region->node =
		(struct smd_region_node){.begin = range.begin, .end = range.end, .access = access};
	ret = region_register(region, dmabuf);
	if (ret) {
		free(region);
		return ret;
	}
	memory->counts.registrations++;
	memory->counts.pinned += range.end - range.begin;
	*out = region;
	return 0;
}

static void region_destroy(struct smd_rdma_region *region)
{
	struct smd_rdma_memory *memory = region->memory;

	assert(region->references == 0);
	memory->config.dereg(memory->config.owner, region->keys.handle);
	memory->counts.deregistrations++;
	memory->counts.pinned -= region->node.end - region->node.begin;
	smd_rdma_refusals_forget(&memory->refusals);
	free(region);
}

/* It is not found again, and goes when nobody uses it any more. */
static void region_retire(struct smd_rdma_region *region)
{
	region->kept = false;
	if (region->references == 0) {
		region_destroy(region);
	}
}

/* NULL of NULL. */
static struct smd_rdma_region *region_of(struct smd_region_node *node)
{
	return node ? (struct smd_rdma_region *)((char *)node -
						 offsetof(struct smd_rdma_region, node))
		    : NULL;
}

/* ---- the list of what callers' buffers were registered as ---- */

static void list_insert(struct smd_rdma_memory *memory, struct smd_rdma_region *region)
{
	TAILQ_INSERT_HEAD(&memory->regions, region, link);
	smd_region_index_add(&memory->index, &region->node);
	memory->entries++;
	memory->bytes += region->node.end - region->node.begin;
	region->kept = true;
}

static void list_remove(struct smd_rdma_memory *memory, struct smd_rdma_region *region)
{
	TAILQ_REMOVE(&memory->regions, region, link);
	smd_region_index_remove(&memory->index, &region->node);
	memory->entries--;
	memory->bytes -= region->node.end - region->node.begin;
	region_retire(region);
}

static struct smd_rdma_region *list_find(
	struct smd_rdma_memory *memory, struct smd_memory_range range, enum smd_rdma_access access)
{
	struct smd_rdma_region *region =
		region_of(smd_region_index_find(&memory->index, range.begin, range.end, access));

	if (region && region != TAILQ_FIRST(&memory->regions)) {
		TAILQ_REMOVE(&memory->regions, region, link);
		TAILQ_INSERT_HEAD(&memory->regions, region, link);
	}
	return region;
}

/* Evicts what was not used for longest until one more of so many bytes has room. */
static bool list_evict(struct smd_rdma_memory *memory, unsigned entries, uint64_t bytes)
{
	struct smd_rdma_region *region = TAILQ_LAST(&memory->regions, region_list);
	bool any = false;

	while (region && (memory->entries > entries || memory->bytes > bytes)) {
		struct smd_rdma_region *before = TAILQ_PREV(region, region_list, link);

		if (region->references == 0) {
			list_remove(memory, region);
			memory->counts.evictions++;
			any = true;
		}
		region = before;
	}
	return any;
}

/* As much as may be kept, less what is about to be added. */
static void list_make_room(struct smd_rdma_memory *memory, unsigned entries, uint64_t bytes)
{
	uint64_t most = memory->config.bytes_max;

	list_evict(memory, memory->config.entries_max - entries, bytes < most ? most - bytes : 0);
}

static void list_drop(struct smd_rdma_memory *memory, struct smd_memory_range range)
{
	struct smd_region_node *node;

	while ((node = smd_region_index_overlapping(&memory->index, range.begin, range.end))) {
		list_remove(memory, region_of(node));
		memory->counts.stale++;
	}
	/* What is mapped there next is not refused for what was there before. */
	smd_rdma_refusals_forget(&memory->refusals);
}

/* ---- registering ---- */

/* The piece of the buffer; what is kept without need makes room where it seems to be lacking. */
static int memory_register(struct smd_rdma_memory *memory, struct smd_memory_range piece,
	struct smd_memory_range buffer, enum smd_rdma_access access, struct smd_rdma_region **out)
{
	int ret = region_create(memory, piece, access, NULL, out);

	if (ret && ret != -EFAULT && list_evict(memory, 0, 0)) {
		ret = region_create(memory, piece, access, NULL, out);
	}
	if (ret) {
		memory->counts.refusals++;
		smd_rdma_refusals_remember(&memory->refusals, buffer, access, ret);
	}
	return ret;
}

/*
 * The watch comes first: what is unmapped from then on is told, and this region with it. One that
 * cannot be watched is never found by another, even while it is used: its memory might be unmapped
 * as soon as the operation ends, which may be before the card's last completion has been seen. It
 * costs 100 to 200 us, so a slot comes first, whose price is a copy.
 */
static int buffer_register(struct smd_rdma_memory *memory, struct smd_memory_range range,
	struct smd_memory_range buffer, enum smd_rdma_access access, struct smd_rdma_region **out)
{
	struct smd_memory_range piece =
		range_piece(buffer, range, SMD_RDMA_MEMORY_PIECE, SMD_RDMA_MEMORY_OVERLAP);
	bool watched =
		smd_memory_watch_add((const void *)piece.begin, piece.end - piece.begin) == 0;
	int ret;

	if (watched) {
		list_make_room(memory, 1, piece.end - piece.begin);
	} else {
		piece = range;
		*out = smd_rdma_bounce_take(&memory->bounce, range.end - range.begin);
	}
	if (!watched && *out) {
		(*out)->memory = memory;
		return 0;
	}
	ret = memory_register(memory, piece, buffer, access, out);
	if (ret == 0 && watched) {
		list_insert(memory, *out);
	}
	return ret;
}

/* ---- registered memory ---- */

/* The registered memory that the range is found in; NULL: none. */
static struct registered *registered_find(
	struct smd_rdma_memory *memory, struct smd_memory_range range)
{
	struct registered *registered;

	TAILQ_FOREACH (registered, &memory->registered, link) {
		if (smd_memory_range_contains(registered->range, range) &&
			range.end - range.begin <= registered->largest) {
			break;
		}
	}
	return registered;
}

static struct smd_rdma_region **registered_piece(
	struct registered *registered, struct smd_memory_range range)
{
	return &registered->pieces[(range.begin - registered->range.begin) / registered->piece];
}

static int registered_add_piece(struct smd_rdma_memory *memory, struct registered *registered,
	struct smd_memory_range range, struct smd_rdma_region **out)
{
	int ret = memory_register(memory,
		range_piece(registered->range, range, registered->piece, registered->largest),
		registered->range, SMD_RDMA_WRITE, out);

	if (ret == 0) {
		(*out)->kept = true;
		*registered_piece(registered, range) = *out;
	}
	return ret;
}

static void registered_destroy(struct smd_rdma_memory *memory, struct registered *registered)
{
	TAILQ_REMOVE(&memory->registered, registered, link);
	for (size_t i = 0; i < registered->count; i++) {
		if (registered->pieces[i]) {
			region_retire(registered->pieces[i]);
		}
	}
	free(registered);
}

static struct registered *registered_find_same(
	const struct smd_rdma_memory *memory, struct smd_memory_range range)
{
	struct registered *registered;

	TAILQ_FOREACH (registered, &memory->registered, link) {
		if (registered->range.begin == range.begin && registered->range.end == range.end) {
			break;
		}
	}
	return registered;
}

/*
 * 0: it is new; 1: it is there already; -errno. A device's memory may overlap other such: whoever
 * has freed what was there before says so later, and until then what came last is what is there.
 */
static int registered_check(
	const struct smd_rdma_memory *memory, struct smd_memory_range range, bool device)
{
	const struct registered *registered;

	if (range.begin == range.end) {
		return -EINVAL;
	}
	if (registered_find_same(memory, range)) {
		return 1;
	}
	TAILQ_FOREACH (registered, &memory->registered, link) {
		if (registered->range.begin < range.end && range.begin < registered->range.end &&
			!(device && registered->device)) {
			return -EEXIST;
		}
	}
	return 0;
}

static struct registered *registered_create(
	struct smd_memory_range range, size_t piece, size_t largest)
{
	size_t count = (range.end - range.begin - 1) / piece + 1;
	struct registered *registered =
		calloc(1, sizeof(*registered) + count * sizeof(registered->pieces[0]));

	if (registered) {
		registered->range = range;
		registered->piece = piece;
		registered->largest = largest;
		registered->count = count;
	}
	return registered;
}

int smd_rdma_memory_register(
	struct smd_rdma_memory *memory, void *base, size_t length, size_t piece, size_t largest)
{
	struct smd_memory_range range = range_of(base, length);
	int ret = piece ? registered_check(memory, range, false) : -EINVAL;
	struct registered *registered;

	if (ret) {
		return ret < 0 ? ret : 0;
	}
	registered = registered_create(range, piece, largest);
	if (!registered) {
		return -ENOMEM;
	}
	TAILQ_INSERT_TAIL(&memory->registered, registered, link);
	return 0;
}

int smd_rdma_memory_prepare(struct smd_rdma_memory *memory, const void *base, size_t length)
{
	const struct smd_memory_range range = range_of(base, length);
	struct registered *registered = registered_find(memory, range_of(base, 1));
	int ret = registered ? 0 : -ENOENT;

	for (size_t i = 0; ret == 0 && i < registered->count; i++) {
		uintptr_t begin = registered->range.begin + i * registered->piece;
		struct smd_rdma_region *region;

		if (begin >= range.begin && begin < range.end && !registered->pieces[i]) {
			ret = registered_add_piece(memory, registered,
				(struct smd_memory_range){begin, begin + 1}, &region);
		}
	}
	return ret;
}

void smd_rdma_memory_prepare_bounce(struct smd_rdma_memory *memory)
{
	smd_rdma_bounce_prepare(&memory->bounce);
}

int smd_rdma_memory_register_device(
	struct smd_rdma_memory *memory, void *base, size_t length, int fd, uint64_t offset)
{
	const struct dmabuf dmabuf = {fd, offset};
	struct smd_memory_range range = range_of(base, length);
	int ret = registered_check(memory, range, true);
	struct registered *registered;

	if (ret) {
		return ret < 0 ? ret : 0;
	}
	registered = registered_create(range, length, length);
	if (!registered) {
		return -ENOMEM;
	}
	ret = region_create(memory, range, SMD_RDMA_WRITE, &dmabuf, &registered->pieces[0]);
	if (ret) {
		free(registered);
		return ret;
	}
	registered->pieces[0]->kept = true;
	registered->device = true;
	TAILQ_INSERT_HEAD(&memory->registered, registered, link); /* found before what is older */
	return 0;
}

bool smd_rdma_memory_has_device(struct smd_rdma_memory *memory, const void *address, size_t length)
{
	const struct registered *registered = registered_find(memory, range_of(address, length));

	return registered && registered->device;
}

void smd_rdma_memory_deregister(struct smd_rdma_memory *memory, const void *base, size_t length)
{
	struct registered *registered = registered_find_same(memory, range_of(base, length));

	if (registered) {
		registered_destroy(memory, registered);
	}
}

/* ---- the cache ---- */

struct smd_rdma_memory *smd_rdma_memory_create(const struct smd_rdma_memory_config *config)
{
	struct smd_rdma_memory *memory = calloc(1, sizeof(*memory));

	if (!memory) {
		return NULL;
	}
	memory->config = *config;
	if (memory->config.entries_max == 0) {
		memory->config.entries_max = SMD_RDMA_MEMORY_ENTRIES_DEFAULT;
	}
	if (memory->config.bytes_max == 0) {
		memory->config.bytes_max = UINT64_MAX;
	}
	TAILQ_INIT(&memory->regions);
	TAILQ_INIT(&memory->registered);
	smd_rdma_bounce_create(&memory->bounce, &memory->config, &memory->counts);
	return memory;
}

void smd_rdma_memory_destroy(struct smd_rdma_memory *memory)
{
	if (!memory) {
		return;
	}
	smd_rdma_bounce_destroy(&memory->bounce);
	while (!TAILQ_EMPTY(&memory->registered)) {
		registered_destroy(memory, TAILQ_FIRST(&memory->registered));
	}
	while (!TAILQ_EMPTY(&memory->regions)) {
		list_remove(memory, TAILQ_FIRST(&memory->regions));
	}
	assert(memory->counts.registrations == memory->counts.deregistrations);
	free(memory);
}

static void memory_drop_unmapped(struct smd_rdma_memory *memory)
{
	struct smd_memory_range range;

	while (smd_memory_watch_next(&memory->cursor, &range)) {
		list_drop(memory, range);
	}
}

void smd_rdma_memory_invalidate(struct smd_rdma_memory *memory)
{
	if (!smd_memory_watch_settle()) {
		list_drop(memory, (struct smd_memory_range){.begin = 0, .end = UINTPTR_MAX});
	}
	memory_drop_unmapped(memory);
}

int smd_rdma_memory_find(struct smd_rdma_memory *memory, const void *address, size_t length,
	const void *extent, size_t extent_length, enum smd_rdma_access access,
	struct smd_rdma_region **out)
{
	struct smd_memory_range range = range_of(address, length);
	struct smd_memory_range buffer = range_of(extent, extent_length);
	struct registered *registered = registered_find(memory, range);
	int ret;

	assert(length > 0);
	memory_drop_unmapped(memory);
	*out = registered ? *registered_piece(registered, range) : list_find(memory, range, access);
	if (*out) {
		memory->counts.hits++;
		(*out)->references++;
		return 0;
	}
	memory->counts.misses++;
	ret = smd_rdma_refusals_find(&memory->refusals, range, access);
	if (ret) {
		return ret;
	}
	if (registered) {
		ret = registered_add_piece(memory, registered, range, out);
	} else {
		buffer = smd_memory_range_contains(buffer, range) ? buffer : range;
		ret = buffer_register(memory, range, buffer, access, out);
	}
	if (ret == 0) {
		(*out)->references++;
	}
	return ret;
}

void smd_rdma_region_put(struct smd_rdma_region *region)
{
	struct smd_rdma_memory *memory = region->memory;

	assert(region->references > 0);
	if (--region->references > 0) {
		return;
	}
	if (region->slot) {
		smd_rdma_bounce_give(&memory->bounce, region);
		return;
	}
	if (!region->kept) {
		region_destroy(region);
		return;
	}
	list_make_room(memory, 0, 0);
}

void smd_rdma_memory_forget(struct smd_rdma_memory *memory, const void *address, size_t length)
{
	list_drop(memory, range_of(address, length));
}

const struct smd_rdma_memory_counts *smd_rdma_memory_counts(const struct smd_rdma_memory *memory)
{
	return &memory->counts;
}
