/* Knows the element types and reductions by number and name. */
#include "reduction_server/base/dtype.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Tells an unsigned type by its largest number; a macro so that each row compares its own type. */
#define UNSIGNED_WHOLE(element) ((element)-1 > 0)
#define UNSIGNED_REAL(element)  false

static const struct {
	const char *name;
	size_t bytes;
	unsigned bits;
	bool is_unsigned;
} dtypes[SMD_DTYPE_COUNT] = {
#define X(constant, number, name, kernel, class, element, wide, bits)                              \
	[constant] = {name, sizeof(element), bits, UNSIGNED_##class(element)},
	SMD_DTYPES(X)
#undef X
};

static const char *const ops[SMD_OP_COUNT] = {
#define X(constant, number, name, kernel) [constant] = (name),
	SMD_OPS(X)
#undef X
};

/* Every number below the count has a row: a gap would be a type without a name. */
#define X(...) +1
_Static_assert(0 SMD_DTYPES(X) == SMD_DTYPE_COUNT, "numbers of types follow each other from 0");
_Static_assert(0 SMD_OPS(X) == SMD_OP_COUNT, "numbers of reductions follow each other from 0");
#undef X

size_t smd_dtype_bytes(unsigned dtype)
{
	return dtype < SMD_DTYPE_COUNT ? dtypes[dtype].bytes : 0;
}

unsigned smd_dtype_bits(unsigned dtype)
{
	return dtype < SMD_DTYPE_COUNT ? dtypes[dtype].bits : 0;
}

bool smd_dtype_is_unsigned(unsigned dtype)
{
	return dtype < SMD_DTYPE_COUNT && dtypes[dtype].is_unsigned;
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

static const struct {
	unsigned dtype;
	const char *name;
} wires[] = {{SMD_FLOAT32, "float32"}, {SMD_BFLOAT16, "bf16"}, {SMD_FLOAT16, "fp16"}};

int smd_wire_parse(const char *name, unsigned *out, struct smd_error *error)
{
	for (size_t i = 0; i < sizeof(wires) / sizeof(wires[0]); i++) {
		if (strcmp(wires[i].name, name) == 0 ||
			strcmp(smd_dtype_name(wires[i].dtype), name) == 0) {
			*out = wires[i].dtype;
			return 0;
		}
	}
	return smd_error_set(
		error, EINVAL, "must be %s, %s or %s", wires[0].name, wires[1].name, wires[2].name);
}

const char *smd_wire_name(unsigned dtype)
{
	for (size_t i = 0; i < sizeof(wires) / sizeof(wires[0]); i++) {
		if (wires[i].dtype == dtype) {
			return wires[i].name;
		}
	}
	return smd_dtype_name(dtype);
}

bool smd_wire_is(unsigned dtype)
{
	for (size_t i = 0; i < sizeof(wires) / sizeof(wires[0]); i++) {
		if (wires[i].dtype == dtype) {
			return true;
		}
	}
	return false;
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

/* The names with commas between them, and `last` before the last one. */
static void join(
	char text[SMD_NAMES_MAX], const char *(*name)(unsigned), unsigned n, const char *last)
{
	size_t used = 0;

	for (unsigned i = 0; i < n; i++) {
		used += (size_t)snprintf(text + used, SMD_NAMES_MAX - used, "%s%s",
			i == 0       ? ""
			: i == n - 1 ? last
				     : ", ",
			name(i));
		assert(used < SMD_NAMES_MAX);
	}
}

void smd_dtype_names(char text[SMD_NAMES_MAX], const char *last)
{
	join(text, smd_dtype_name, SMD_DTYPE_COUNT, last);
}

void smd_op_names(char text[SMD_NAMES_MAX], const char *last)
{
	join(text, smd_op_name, SMD_OP_COUNT, last);
}
