/* Knows the element types and reductions by number and name. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "reduction_server/kernels/kernels.h"
#include "worker/summand.h"

static const struct {
	const char *name;
	size_t bytes;
} dtypes[SMD_DTYPE_COUNT] = {
	[SMD_INT8] = {"int8", 1},
	[SMD_UINT8] = {"uint8", 1},
	[SMD_INT32] = {"int32", 4},
	[SMD_UINT32] = {"uint32", 4},
	[SMD_INT64] = {"int64", 8},
	[SMD_UINT64] = {"uint64", 8},
	[SMD_FLOAT16] = {"float16", 2},
	[SMD_FLOAT32] = {"float32", 4},
	[SMD_FLOAT64] = {"float64", 8},
	[SMD_BFLOAT16] = {"bfloat16", 2},
	[SMD_FLOAT8E4M3] = {"float8e4m3", 1},
	[SMD_FLOAT8E5M2] = {"float8e5m2", 1},
};

static const char *const ops[SMD_OP_COUNT] = {
	[SMD_SUM] = "sum",
	[SMD_PROD] = "prod",
	[SMD_MAX] = "max",
	[SMD_MIN] = "min",
	[SMD_AVG] = "avg",
};

size_t smd_dtype_bytes(unsigned dtype)
{
	return dtype < SMD_DTYPE_COUNT ? dtypes[dtype].bytes : 0;
}

const char *smd_dtype_name(unsigned dtype)
{
	static _Thread_local char unknown[24];

	if (dtype < SMD_DTYPE_COUNT) {
		return dtypes[dtype].name;
	}
	snprintf(unknown, sizeof(unknown), "type %u", dtype);
	return unknown;
}

const char *smd_op_name(unsigned op)
{
	static _Thread_local char unknown[24];

	if (op < SMD_OP_COUNT) {
		return ops[op];
	}
	snprintf(unknown, sizeof(unknown), "op %u", op);
	return unknown;
}

int smd_dtype_parse(const char *name, unsigned *out)
{
	for (unsigned i = 0; i < SMD_DTYPE_COUNT; i++) {
		if (strcmp(dtypes[i].name, name) == 0) {
			*out = i;
			return 0;
		}
	}
	return -EINVAL;
}

int smd_op_parse(const char *name, unsigned *out)
{
	for (unsigned i = 0; i < SMD_OP_COUNT; i++) {
		if (strcmp(ops[i], name) == 0) {
			*out = i;
			return 0;
		}
	}
	return -EINVAL;
}
