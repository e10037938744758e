/* What nccl_abi.h says of NCCL's types, against the headers of an installed NCCL. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <nccl.h>
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
#include <nccl_device/net_device.h>
#define DECLARES_DEVICES
#endif

#include "worker/nccl_plugin/abi/nccl_abi.h"

/* A name of ours, and theirs for the same number. */
struct pair {
	const char *name;
	int ours;
	int theirs;
};

#define PAIR(ours, theirs) #theirs, (int)(ours), (int)(theirs)

static void assert_pairs(const struct pair *pairs, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (pairs[i].ours != pairs[i].theirs) {
			print_error("%s: ours is %d, theirs is %d\n", pairs[i].name, pairs[i].ours,
				pairs[i].theirs);
		}
		assert_int_equal(pairs[i].ours, pairs[i].theirs);
	}
}

static void results_have_their_numbers(void **state)
{
	static const struct pair pairs[] = {
		{PAIR(NCCL_SUCCESS, ncclSuccess)},
		{PAIR(NCCL_UNHANDLED_CUDA_ERROR, ncclUnhandledCudaError)},
		{PAIR(NCCL_SYSTEM_ERROR, ncclSystemError)},
		{PAIR(NCCL_INTERNAL_ERROR, ncclInternalError)},
		{PAIR(NCCL_INVALID_ARGUMENT, ncclInvalidArgument)},
		{PAIR(NCCL_INVALID_USAGE, ncclInvalidUsage)},
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 13, 0)
		{PAIR(NCCL_REMOTE_ERROR, ncclRemoteError)},
#endif
	};

	(void)state;
	assert_pairs(pairs, sizeof(pairs) / sizeof(pairs[0]));
}

static void types_have_their_numbers(void **state)
{
	static const struct pair pairs[] = {
		{PAIR(NCCL_INT8, ncclInt8)},
		{PAIR(NCCL_UINT8, ncclUint8)},
		{PAIR(NCCL_INT32, ncclInt32)},
		{PAIR(NCCL_UINT32, ncclUint32)},
		{PAIR(NCCL_INT64, ncclInt64)},
		{PAIR(NCCL_UINT64, ncclUint64)},
		{PAIR(NCCL_FLOAT16, ncclFloat16)},
		{PAIR(NCCL_FLOAT32, ncclFloat32)},
		{PAIR(NCCL_FLOAT64, ncclFloat64)},
		{PAIR(NCCL_BFLOAT16, 9)}, /* declared to compilers of CUDA alone by old headers */
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 24, 0)
		{PAIR(NCCL_BFLOAT16, ncclBfloat16)},
		{PAIR(NCCL_FLOAT8E4M3, ncclFloat8e4m3)},
		{PAIR(NCCL_FLOAT8E5M2, ncclFloat8e5m2)},
		{PAIR(NCCL_DTYPE_COUNT, ncclNumTypes)},
#endif
	};

	(void)state;
	assert_pairs(pairs, sizeof(pairs) / sizeof(pairs[0]));
}

/* An average is the first that no network sees. */
static void reductions_have_their_numbers(void **state)
{
	static const struct pair pairs[] = {
		{PAIR(NCCL_SUM, ncclSum)},
		{PAIR(NCCL_PROD, ncclProd)},
		{PAIR(NCCL_MAX, ncclMax)},
		{PAIR(NCCL_MIN, ncclMin)},
		{PAIR(NCCL_OP_COUNT, ncclAvg)},
	};

	(void)state;
	assert_pairs(pairs, sizeof(pairs) / sizeof(pairs[0]));
}

/* The tables return int and take int, or enumerations of ours, in these places. */
static void enumerations_are_as_wide_as_ours(void **state)
{
	(void)state;
	assert_int_equal(sizeof(ncclResult_t), sizeof(enum nccl_result));
	assert_int_equal(sizeof(ncclResult_t), sizeof(int));
	assert_int_equal(sizeof(ncclDataType_t), sizeof(enum nccl_dtype));
	assert_int_equal(sizeof(ncclDataType_t), sizeof(int));
	assert_int_equal(sizeof(ncclRedOp_t), sizeof(enum nccl_op));
	assert_int_equal(sizeof(ncclRedOp_t), sizeof(int));
}

#ifdef DECLARES_DEVICES
static void a_device_is_driven_by_the_processor(void **state)
{
	(void)state;
	assert_int_equal(NCCL_DEVICE_HOST, NCCL_NET_DEVICE_HOST);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(results_have_their_numbers),
		cmocka_unit_test(types_have_their_numbers),
		cmocka_unit_test(reductions_have_their_numbers),
		cmocka_unit_test(enumerations_are_as_wide_as_ours),
#ifdef DECLARES_DEVICES
		cmocka_unit_test(a_device_is_driven_by_the_processor),
#endif
	};

	print_message("the headers are of NCCL %d\n", NCCL_VERSION_CODE);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
