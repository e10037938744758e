/*
 * When the NCCL plugin offers that network cards read and write memory of GPUs.
 *
 *   test_nccl_gdr [--no-driver | --old]
 *
 * Without a driver, or with one that knows of no dma-bufs, nothing is offered.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/cuda/gdr_machine.h"
#include "worker/nccl_plugin/device/gdr.h"

extern const struct nccl_net_v6 ncclNetPlugin_v6;
extern const struct nccl_net_v8 ncclNetPlugin_v8;
extern const struct nccl_net_v9 ncclNetPlugin_v9;
extern const struct nccl_net_v10 ncclNetPlugin_v10;
extern const struct nccl_net_v11 ncclNetPlugin_v11;
extern const struct nccl_collnet_v6 ncclCollNetPlugin_v6;
extern const struct nccl_collnet_v8 ncclCollNetPlugin_v8;
extern const struct nccl_collnet_v9 ncclCollNetPlugin_v9;
extern const struct nccl_collnet_v9 ncclCollNetPlugin_v10;
extern const struct nccl_collnet_v11 ncclCollNetPlugin_v11;

static const struct smd_nccl_device card = {.name = "lo", .rdma_name = "card0"};

static void assert_refused(const struct smd_nccl_device *device, const char *text)
{
	struct smd_error error = {""};

	assert_true(smd_gdr_check(device, 1, &error) < 0);
	assert_string_equal(error.text, text);
	gpu_leave();
	machine_begin(NULL);
	assert_int_equal(smd_gdr_check(&card, 1, &error), 0);
}

static void every_condition_must_hold(void **state)
{
	const struct smd_nccl_device plain = {.name = "eth0"};

	(void)state;
	unsetenv("SUMMAND_NCCL_GDR");
	assert_refused(&card, "SUMMAND_NCCL_GDR is not 1");
	setenv("SUMMAND_NCCL_GDR", "0", 1);
	assert_refused(&card, "SUMMAND_NCCL_GDR is not 1");
	unsetenv("SUMMAND_TRANSPORT");
	assert_refused(&card, "SUMMAND_TRANSPORT lets lanes go over shm, which copies");
	setenv("SUMMAND_TRANSPORT", "tcp", 1);
	assert_refused(&card, "SUMMAND_TRANSPORT lets lanes go over tcp, which copies");
	assert_refused(&plain, "eth0 has no RDMA device");
	machine_card_answer = -EOPNOTSUPP;
	assert_refused(&card, "card0 takes no dma-bufs: Operation not supported");
	gpu_set(SMD_FAKE_DMA_BUF, 0);
	assert_refused(&card, "the CUDA device or its kernel module has no dma-buf");
	gpu_set(SMD_FAKE_FLUSH, 0);
	assert_refused(&card, "the CUDA device does not say when it sees what cards write");
	setenv("SUMMAND_NCCL_GDR", "1", 1);
	assert_refused(&card,
		"the GPU sees what cards write only when its driver is asked, which may "
		"wait for kernels that wait for it; SUMMAND_NCCL_GDR=flush asks");
}

static void memory_windows_leave_it_out(void **state)
{
	struct smd_error error = {""};

	(void)state;
	setenv("SUMMAND_RDMA_WINDOWS", "1", 1);
	assert_int_equal(smd_gdr_check(&card, 1, &error), -ENOTSUP);
	unsetenv("SUMMAND_RDMA_WINDOWS");
	assert_string_equal(error.text,
		"SUMMAND_RDMA_WINDOWS is 1, and there are no memory windows to GPU memory");
	assert_int_equal(smd_gdr_check(&card, 1, &error), 0);
}

/* As Hopper and later: NCCL may ask for a flush there, and the driver is not. */
static void a_gpu_that_sees_at_once_is_not_flushed(void **state)
{
	struct smd_error error = {""};

	(void)state;
	gpu_set(SMD_FAKE_ORDERING, CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER);
	setenv("SUMMAND_NCCL_GDR", "1", 1);
	assert_int_equal(smd_gdr_check(&card, 1, &error), 0);
	gpu_fail("cuCtxGetDevice", 1, CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(smd_gdr_flush(), NCCL_SUCCESS);
	gpu_set(SMD_FAKE_ORDERING, CU_GPU_DIRECT_RDMA_WRITES_ORDERING_NONE);
	setenv("SUMMAND_NCCL_GDR", "flush", 1);
	assert_int_equal(smd_gdr_check(&card, 1, &error), 0);
	assert_int_equal(smd_gdr_flush(), NCCL_SYSTEM_ERROR);
}

/* One card that cannot is enough. */
static void all_devices_must_have_such_a_card(void **state)
{
	const struct smd_nccl_device devices[] = {card, {.name = "eth1"}};
	struct smd_error error = {""};

	(void)state;
	assert_int_equal(smd_gdr_check(devices, 2, &error), -ENODEV);
	assert_string_equal(error.text, "eth1 has no RDMA device");
}

static void without_a_driver_it_is_refused(void **state)
{
	struct smd_error error = {""};

	(void)state;
	assert_int_equal(smd_gdr_check(&card, 1, &error), -ENODEV);
	assert_string_equal(
		error.text, "there is no CUDA driver, or it was built without CUDA's headers");
}

static void with_an_old_driver_it_is_refused(void **state)
{
	struct smd_error error = {""};

	(void)state;
	assert_int_equal(smd_gdr_check(&card, 1, &error), -ENOTSUP);
	assert_string_equal(error.text, "the CUDA driver is older than 11.7");
}

static int offered; /* NCCL_PTR_... */

#define ASSERT_OFFERED(version, since)                                                             \
	do {                                                                                       \
		struct nccl_props_v##since net = {.ptr_support = 0};                               \
		struct nccl_props_v##since coll = {.ptr_support = 0};                              \
                                                                                                   \
		assert_int_equal(ncclNetPlugin_v##version.getProperties(0, &net), NCCL_SUCCESS);   \
		assert_int_equal(                                                                  \
			ncclCollNetPlugin_v##version.getProperties(0, &coll), NCCL_SUCCESS);       \
		assert_int_equal(net.ptr_support, offered);                                        \
		assert_int_equal(coll.ptr_support, offered);                                       \
	} while (0)

static void every_version_shows_it_alike(void **state)
{
	void *ctx;

	(void)state;
	assert_int_equal(COLL.init(&ctx, 0, machine_listen), NCCL_SUCCESS);
	ASSERT_OFFERED(6, 6);
	ASSERT_OFFERED(8, 8);
	ASSERT_OFFERED(9, 9);
	ASSERT_OFFERED(10, 9);
	ASSERT_OFFERED(11, 11);
	ASSERT_OFFERED(12, 12);
	machine_assert_said(offered & NCCL_PTR_DMABUF
				    ? "GPU memory: network cards read and write it"
				    : "GPU memory: goes through the host's: ");
}

static void versions_share_one_registration(void **state)
{
	(void)state;
	assert_ptr_equal(ncclNetPlugin_v6.regMrDmaBuf, NET.regMrDmaBuf);
	assert_ptr_equal(ncclNetPlugin_v8.regMrDmaBuf, NET.regMrDmaBuf);
	assert_ptr_equal(ncclNetPlugin_v9.regMrDmaBuf, NET.regMrDmaBuf);
	assert_ptr_equal(ncclNetPlugin_v10.regMrDmaBuf, NET.regMrDmaBuf);
	assert_ptr_equal(ncclNetPlugin_v11.regMrDmaBuf, NET.regMrDmaBuf);
	assert_ptr_equal(ncclCollNetPlugin_v6.regMrDmaBuf, COLL.regMrDmaBuf);
	assert_ptr_equal(ncclCollNetPlugin_v8.regMrDmaBuf, COLL.regMrDmaBuf);
	assert_ptr_equal(ncclCollNetPlugin_v9.regMrDmaBuf, COLL.regMrDmaBuf);
	assert_ptr_equal(ncclCollNetPlugin_v10.regMrDmaBuf, COLL.regMrDmaBuf);
	assert_ptr_equal(ncclCollNetPlugin_v11.regMrDmaBuf, COLL.regMrDmaBuf);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		MACHINE_TEST(every_condition_must_hold),
		MACHINE_TEST(memory_windows_leave_it_out),
		MACHINE_TEST(all_devices_must_have_such_a_card),
		MACHINE_TEST(a_gpu_that_sees_at_once_is_not_flushed),
		MACHINE_TEST(every_version_shows_it_alike),
		MACHINE_TEST(versions_share_one_registration),
	};
	const struct CMUnitTest no_driver[] = {
		MACHINE_TEST(without_a_driver_it_is_refused),
		MACHINE_TEST(every_version_shows_it_alike),
	};
	const struct CMUnitTest old[] = {
		MACHINE_TEST(with_an_old_driver_it_is_refused),
		MACHINE_TEST(every_version_shows_it_alike),
	};
	int ret;

	machine_start(argc > 1 && strcmp(argv[1], "--old") == 0 ? OLD_DRIVER : FAKE_DRIVER);
	offered = NCCL_PTR_HOST;
	if (argc > 1 && strcmp(argv[1], "--no-driver") == 0) {
		setenv("SUMMAND_CUDA_DRIVER", "/nonexistent", 1);
		ret = cmocka_run_group_tests(no_driver, NULL, NULL);
	} else if (argc > 1) {
		ret = cmocka_run_group_tests(old, NULL, NULL);
	} else {
		offered |= NCCL_PTR_DMABUF;
		ret = cmocka_run_group_tests(tests, NULL, NULL);
	}
	machine_stop();
	return ret;
}
