/* Remembers registrations. */
#include "registrar.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

struct registrar registrar;

void registrar_reset(void)
{
	memset(&registrar, 0, sizeof(registrar));
	registrar.limit = UINT64_MAX;
}

static int registrar_reg(void *owner, void *address, size_t length, enum smd_rdma_access access,
	struct smd_rdma_keys *out)
{
	uintptr_t begin = (uintptr_t)address;
	struct registration *registration = &registrar.all[registrar.count];

	assert_ptr_equal(owner, &registrar);
	assert_int_not_equal(length, 0);
	registrar.asked++;
	if (registrar.err) {
		return registrar.err;
	}
	if (registrar.pinned + length > registrar.limit) {
		return -ENOMEM;
	}
	if (access == SMD_RDMA_WRITE && begin < registrar.read_only_end &&
		registrar.read_only_begin < begin + length) {
		return -EFAULT;
	}
	assert_in_range(registrar.count, 0, REGISTRATIONS_MAX - 1);
	*registration = (struct registration){
		.begin = begin, .end = begin + length, .access = access, .live = true};
	if (registrar.stamped) {
		memcpy(&registration->stamp, address, sizeof(registration->stamp));
	}
	*out = (struct smd_rdma_keys){.handle = registration,
		.lkey = registrar.count + 1000,
		.rkey = registrar.count + 2000};
	registrar.count++;
	registrar.live++;
	registrar.pinned += length;
	return 0;
}

static int registrar_reg_device(void *owner, void *address, size_t length, int fd, uint64_t offset,
	struct smd_rdma_keys *out)
{
	int ret = registrar_reg(owner, address, length, SMD_RDMA_WRITE, out);

	if (ret == 0) {
		struct registration *registration = out->handle;

		registration->device = true;
		registration->fd = fd;
		registration->offset = offset;
	}
	return ret;
}

static void registrar_dereg(void *owner, void *handle)
{
	struct registration *registration = handle;

	assert_ptr_equal(owner, &registrar);
	assert_true(registration->live);
	registration->live = false;
	registrar.live--;
	registrar.pinned -= registration->end - registration->begin;
}

struct smd_rdma_memory *registrar_cache(unsigned entries_max, uint64_t bytes_max)
{
	const struct smd_rdma_memory_config config = {
		.reg = registrar_reg,
		.reg_device = registrar_reg_device,
		.dereg = registrar_dereg,
		.owner = &registrar,
		.entries_max = entries_max,
		.bytes_max = bytes_max,
		.bounce_max = registrar.bounce_max,
		.node = -1,
	};
	struct smd_rdma_memory *memory = smd_rdma_memory_create(&config);

	assert_non_null(memory);
	return memory;
}

const struct registration *registrar_of(const struct smd_rdma_region *region)
{
	return region->keys.handle;
}
