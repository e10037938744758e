/*
 * Where the kernel refuses userfaultfd, as in a container with Docker's seccomp profile, which this
 * program puts on itself: the watch says so, and the cache hands out slots, registered once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "reduction_server/transport/rdma/bounce.h"
#include "reduction_server/transport/rdma/memory_watch.h"
#include "registrar.h"

#define CHUNK ((size_t)512 << 10)

static int forbid_userfaultfd(void **state)
{
	struct sock_filter lines[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog filter = {sizeof(lines) / sizeof(lines[0]), lines};

	(void)state;
	registrar_reset();
	registrar.bounce_max = 4ull * SMD_RDMA_BOUNCE_SLAB;
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

static void the_watch_says_what_must_be_allowed(void **state)
{
	struct smd_error error = {""};
	int here;

	(void)state;
	assert_int_equal(smd_memory_watch_start(&error), -EPERM);
	assert_non_null(strstr(error.text, "a container's seccomp profile"));
	assert_int_equal(smd_memory_watch_add(&here, sizeof(here)), -ENOSYS);
	assert_true(smd_memory_watch_settle());
}

static void chunks_go_through_slots(void **state)
{
	struct smd_rdma_memory *cache = registrar_cache(0, 0);
	uint8_t *buffer = calloc(16, CHUNK);

	(void)state;
	for (int round = 0; round < 3; round++) {
		smd_rdma_memory_invalidate(cache);
		for (size_t at = 0; at < 16 * CHUNK; at += CHUNK) {
			struct smd_rdma_region *region;

			assert_int_equal(smd_rdma_memory_find(cache, buffer + at, CHUNK, buffer,
						 16 * CHUNK, SMD_RDMA_READ, &region),
				0);
			assert_non_null(region->slot);
			memcpy(region->slot, buffer + at, CHUNK);
			smd_rdma_region_put(region);
		}
	}
	assert_int_equal(registrar.count, 1);
	smd_rdma_memory_destroy(cache);
	assert_int_equal(registrar.live, 0);
	free(buffer);
}

/* Its owner says that it stays, so nothing is copied. */
static void registered_memory_needs_no_slot(void **state)
{
	struct smd_rdma_memory *cache = registrar_cache(0, 0);
	uint8_t *buffer = calloc(16, CHUNK);
	struct smd_rdma_region *region;

	(void)state;
	assert_int_equal(smd_rdma_memory_register(
				 cache, buffer, 16 * CHUNK, SMD_RDMA_MEMORY_PIECE, CHUNK),
		0);
	assert_int_equal(smd_rdma_memory_find(
				 cache, buffer + CHUNK, CHUNK, NULL, 0, SMD_RDMA_WRITE, &region),
		0);
	assert_null(region->slot);
	smd_rdma_region_put(region);
	smd_rdma_memory_destroy(cache);
	free(buffer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_watch_says_what_must_be_allowed),
		cmocka_unit_test(chunks_go_through_slots),
		cmocka_unit_test(registered_memory_needs_no_slot),
	};

	return cmocka_run_group_tests_name(
		"cache without userfaultfd", tests, forbid_userfaultfd, NULL);
}
