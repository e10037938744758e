/*
 * What a loop's lanes will share is made before there are any: the devices of the ports that they
 * will be on are open, their queues are there, and memory is registered. Else the first lane would
 * do it, and what is registered at its first use would be in the midst of a chunk.
 *
 * Memory takes long, because the kernel clears it first, and a server may have hundreds of GB. So
 * it is registered piece by piece, from where it is used first, after the maker's thread has had
 * the kernel clear the piece. Lanes are made and are at work meanwhile.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/log.h"
#include "reduction_server/base/pages.h"
#include "reduction_server/transport/rdma/listing.h"
#include "reduction_server/transport/rdma/rdma.h"

/* ---- memory ---- */

struct rdma_preparation {
	struct rdma_job job;
	struct rdma_drain drain;
	struct rdma_loop *loop;
	struct smd_extent memory;
	size_t largest;
	size_t at;  /* where the piece begins that the maker has; those before are registered */
	bool ended; /* by the loop's end */
};

static struct rdma_preparation *preparation_of_job(struct rdma_job *job)
{
	return (struct rdma_preparation *)((char *)job - offsetof(struct rdma_preparation, job));
}

/* With what it reaches into the next one. */
static void job_populate(struct rdma_job *job)
{
	const struct rdma_preparation *preparation = preparation_of_job(job);
	size_t left = preparation->memory.length - preparation->at;
	size_t bytes = SMD_RDMA_MEMORY_PIECE + preparation->largest;

	smd_pages_populate(
		(uint8_t *)preparation->memory.base + preparation->at, bytes < left ? bytes : left);
}

/* With each device that has been prepared. False: none has taken it, nor would take the next. */
static bool register_piece(const struct rdma_preparation *preparation)
{
	const uint8_t *piece = (const uint8_t *)preparation->memory.base + preparation->at;
	struct rdma_device *device;
	bool taken = false;

	LIST_FOREACH (device, &preparation->loop->devices, link) {
		taken |= device->prepared && !device->failed &&
			 smd_rdma_memory_prepare(device->memory, piece, SMD_RDMA_MEMORY_PIECE) == 0;
	}
	return taken;
}

static void preparation_end(struct rdma_preparation *preparation)
{
	struct rdma_loop *loop = preparation->loop;
	struct rdma_device *device;

	LIST_FOREACH (device, &loop->devices, link) {
		smd_log(SMD_LOG_DEBUG, "rdma",
			"device %s: %llu MiB are registered, in %zu MiB of memory",
			ibv_get_device_name(device->context->device),
			(unsigned long long)smd_rdma_memory_counts(device->memory)->pinned >> 20,
			preparation->memory.length >> 20);
	}
	LIST_REMOVE(&preparation->drain, link);
	loop->preparation = NULL;
	free(preparation);
	smd_rdma_loop_put(loop);
}

static void job_on_populated(struct rdma_job *job)
{
	struct rdma_preparation *preparation = preparation_of_job(job);
	bool taken = !preparation->ended && register_piece(preparation);

	preparation->at += SMD_RDMA_MEMORY_PIECE;
	if (taken && preparation->at < preparation->memory.length) {
		smd_rdma_maker_give(preparation->loop->maker, job);
	} else {
		preparation_end(preparation);
	}
}

static void preparation_end_with_loop(struct rdma_drain *drain)
{
	struct rdma_preparation *preparation =
		(struct rdma_preparation *)((char *)drain -
					    offsetof(struct rdma_preparation, drain));

	preparation->ended = true;
	smd_rdma_loop_finish_maker(preparation->loop);
}

/* Without memory for it pieces are registered at their first use. */
static void preparation_begin(struct rdma_loop *loop, struct smd_extent memory, size_t largest)
{
	struct rdma_preparation *preparation = calloc(1, sizeof(*preparation));

	if (!preparation) {
		return;
	}
	*preparation = (struct rdma_preparation){
		.job = {.what = "wait for memory", .run = job_populate, .done = job_on_populated},
		.drain.end = preparation_end_with_loop,
		.loop = loop,
		.memory = memory,
		.largest = largest,
	};
	loop->preparation = preparation;
	loop->users++;
	LIST_INSERT_HEAD(&loop->drains, &preparation->drain, link);
	smd_rdma_maker_give(loop->maker, &preparation->job);
}

/* ---- devices ---- */

static int prepare_device(struct rdma_loop *loop, const struct smd_rdma_wish *wish,
	struct smd_extent memory, size_t largest, struct smd_error *error)
{
	struct rdma_device *device;
	struct smd_verbs_port port;
	int ret = smd_rdma_listing_choose(loop, wish, &port, error);

	if (ret == 0) {
		ret = smd_rdma_device_get(
			loop, port.device, port.number, loop->settings.windows, 0, &device, error);
	}
	if (ret) {
		return ret;
	}
	smd_rdma_device_keep(device); /* until it is removed, or the loop ends */
	smd_rdma_device_put(device);
	/* Without it the memory is treated as callers' is, and that is all. */
	(void)smd_rdma_memory_register(
		device->memory, memory.base, memory.length, SMD_RDMA_MEMORY_PIECE, largest);
	return 0;
}

/* Of each of the server's addresses once for all shards: what no device here can do, or a device
 * that the user has named and that is not there. Of the rest lanes will say what is still in the
 * way then. */
static void tell_unprepared(const struct rdma_loop *loop, const char *address, unsigned number,
	int err, const struct smd_error *error)
{
	static atomic_uint told; /* a bit for each address */
	const unsigned bit = 1u << number;
	bool misnamed = err == -ENETDOWN && loop->nports > 0;

	_Static_assert(SMD_ADDRESSES_MAX <= 8 * sizeof(bit), "each has a bit");
	if (err != -EPROTONOSUPPORT && err != -ENETDOWN && err != -ENETUNREACH && err != -ENOTSUP) {
		smd_log(SMD_LOG_DEBUG, "rdma", "not prepared for lanes at %s: %s", address,
			error->text);
	} else if (!(atomic_fetch_or(&told, bit) & bit)) {
		smd_log(misnamed ? SMD_LOG_WARN : SMD_LOG_INFO, "rdma",
			"no workers over rdma at %s: %s", address, error->text);
	}
}

/* Once. Workers heed them, also where they listen for other workers. */
static void warn_of_devices(const struct smd_rdma_settings *settings)
{
	static atomic_flag warned = ATOMIC_FLAG_INIT;

	if (settings->by_manager && settings->devices[0] && !atomic_flag_test_and_set(&warned)) {
		smd_log(SMD_LOG_WARN, "rdma",
			"SUMMAND_RDMA_CONNECT: must be tcp for SUMMAND_RDMA_DEVICE to be heeded by "
			"a server, got \"cm\"");
	}
}

/* What lanes to that address of the server will need. */
static int prepare_address(struct rdma_loop *loop, const char *address, unsigned shard,
	struct smd_extent memory, size_t largest, struct smd_error *error)
{
	struct smd_rdma_way way;
	/* The connection manager goes by the address alone. */
	bool stays = loop->settings.by_manager;
	struct smd_rdma_wish wish = {
		.devices = stays ? "" : loop->settings.devices,
		.local = way.local,
		.interface = way.interface,
		.turn = stays ? 0 : shard,
		.first = stays ? 0 : loop->first,
		.stays = stays,
	};

	if (!smd_rdma_port_listens(address, "", &way)) {
		return 0;
	}
	wish.anywhere = way.anywhere;
	loop->anywhere |= way.anywhere;
	return prepare_device(loop, &wish, memory, largest, error);
}

void smd_rdma_prepare(struct event_base *base, const char *addresses, unsigned shard,
	struct smd_extent memory, size_t largest)
{
	struct smd_error error = {""};
	char address[SMD_ADDRESS_LONGEST];
	struct rdma_loop *loop;

	if (smd_rdma_loop_get(base, &loop, &error)) {
		return; /* lanes will say so */
	}
	loop->serves = true;
	warn_of_devices(&loop->settings);
	loop->first = smd_rdma_port_first(addresses);
	for (unsigned i = 0; smd_addresses_get(addresses, i, address); i++) {
		int ret = prepare_address(loop, address, shard, memory, largest, &error);

		if (ret) {
			tell_unprepared(loop, address, i, ret, &error);
		}
	}
	if (smd_rdma_loop_open_maker(loop) == 0 && !LIST_EMPTY(&loop->devices) && memory.length &&
		!loop->preparation) {
		preparation_begin(loop, memory, largest);
	} /* else with the first lane, and what it uses */
	if (loop->prepared) {
		smd_rdma_loop_put(loop);
	}
	loop->prepared = true;
}
