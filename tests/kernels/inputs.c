/* Makes the sets of inputs.h. Every run makes the same ones. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/dtype.h"
#include "reduction_server/base/random.h"
#include "tests/kernels/inputs.h"
#include "tests/kernels/reference.h"

#define MOST_SPECIAL 64

const char *inputs_name(enum input_set set)
{
	static const char *const names[INPUTS_SETS] = {
		[INPUTS_ALONE] = "every value alone",
		[INPUTS_PAIRS] = "pairs",
		[INPUTS_TRIPLES] = "triples of special values",
		[INPUTS_TIES] = "rounding ties",
		[INPUTS_RANKS] = "many ranks",
	};

	return names[set];
}

uint64_t inputs_get(const void *elements, size_t width, size_t i)
{
	uint64_t bits = 0;

	memcpy(&bits, (const char *)elements + i * width, width); /* little-endian, as all of it */
	return bits;
}

static void put(void *elements, size_t width, size_t i, uint64_t bits)
{
	memcpy((char *)elements + i * width, &bits, width);
}

/* ---- special values ---- */

/* The ends and the middle of exponents with those of mantissas: zeros, denormals, the largest,
 * infinities, NaN that are quiet or signalling, with payloads, and of both signs. */
static size_t special_real(const struct float_format *format, uint64_t *to)
{
	int bits = format->precision - 1;
	uint64_t most = (1ull << format->exponent_bits) - 1;
	uint64_t exponents[] = {0, 1, most / 2, most - 1, most};
	uint64_t mantissas[] = {0, 1, 1ull << (bits - 1), (1ull << bits) - 1};
	size_t n = 0;

	for (unsigned i = 0; i < 5 * 4 * 2; i++) {
		uint64_t sign = (uint64_t)(i / 20) << (format->exponent_bits + bits);

		to[n++] = sign | exponents[i % 20 / 4] << bits | mantissas[i % 4];
	}
	return n;
}

static size_t special_whole(unsigned width, uint64_t *to)
{
	uint64_t ones = ~0ull >> (64 - width);
	uint64_t top = 1ull << (width - 1);
	uint64_t half = 1ull << (width / 2);
	uint64_t values[] = {0, 1, 2, 3, 7, 17, half - 1, half, half + 1, top - 2, top - 1, top,
		top + 1, top + 2, ones / 3, ones / 3 * 2, ones - 16, ones - 2, ones - 1, ones};
	size_t n = sizeof(values) / sizeof(values[0]);

	memcpy(to, values, sizeof(values));
	return n;
}

static size_t special_values(unsigned dtype, uint64_t *to)
{
	const struct float_format *format = reference_format(dtype);

	return format ? special_real(format, to)
		      : special_whole(8 * (unsigned)smd_dtype_bytes(dtype), to);
}

/* A number near one, whose sums and products with others stay finite. */
static uint64_t moderate(unsigned dtype, uint64_t random)
{
	const struct float_format *format = reference_format(dtype);
	double value = (double)(random >> 11) * 0x1p-51 - 2.0;

	return format ? reference_encode(dtype, value) : random % 100;
}

void inputs_fill(void *elements, unsigned dtype, size_t count, uint64_t seed)
{
	uint64_t special[MOST_SPECIAL];
	size_t specials = special_values(dtype, special);
	size_t width = smd_dtype_bytes(dtype);

	for (size_t i = 0; i < count; i++) {
		uint64_t random = smd_random_next(&seed);
		uint64_t kind = smd_random_next(&seed) % 16;

		if (kind == 0) {
			random = special[random % specials];
		} else if (kind < 12) {
			random = moderate(dtype, random);
		}
		put(elements, width, i, random);
	}
}

/* ---- the sets ---- */

static void reserve(struct inputs *in, unsigned n, size_t count)
{
	in->n = n;
	in->count = count;
	for (unsigned r = 0; r < n; r++) {
		in->src[r] = calloc(count + 1, in->width);
		if (!in->src[r]) {
			abort();
		}
	}
}

/* Every pattern of a narrow type; special and random ones of a wide one. Returned is their number.
 */
static size_t values_of(unsigned dtype, bool brief, uint64_t **values)
{
	size_t width = smd_dtype_bytes(dtype);
	size_t count = width == 1 ? 256 : width == 2 && !brief ? 65536 : 4096;
	uint64_t seed = dtype;

	*values = calloc(count, sizeof(**values));
	if (!*values) {
		abort();
	}
	for (size_t i = 0; i < count; i++) {
		(*values)[i] = width == 1 || (width == 2 && !brief) ? i : smd_random_next(&seed);
	}
	if (width > 2 || brief) {
		special_values(dtype, *values);
	}
	return count;
}

static void make_alone(struct inputs *in, const uint64_t *values, size_t count)
{
	reserve(in, 1, count);
	for (size_t i = 0; i < count; i++) {
		put(in->src[0], in->width, i, values[i]);
	}
}

/* The partner comes first in every other pair. */
static void make_pairs(struct inputs *in, const uint64_t *values, size_t count, bool brief)
{
	uint64_t special[MOST_SPECIAL];
	size_t partners = special_values(in->dtype, special);
	const uint64_t *partner = special;

	if (in->width == 1 && !brief) {
		partner = values;
		partners = count;
	}
	reserve(in, 2, count * partners);
	for (size_t i = 0; i < count * partners; i++) {
		size_t first = i % partners % 2;

		put(in->src[first], in->width, i, partner[i % partners]);
		put(in->src[!first], in->width, i, values[i / partners]);
	}
}

static void make_triples(struct inputs *in, bool brief)
{
	uint64_t special[MOST_SPECIAL];
	size_t n = special_values(in->dtype, special);

	reserve(in, 3, brief ? n * n * 5 : n * n * n);
	for (size_t i = 0; i < in->count; i++) {
		put(in->src[0], in->width, i, special[i % n]);
		put(in->src[1], in->width, i, special[i / n % n]);
		put(in->src[2], in->width, i, special[i / n / n]);
	}
}

/* The sum lies half-way between two numbers, or one bit of a float32 beside. */
static void make_ties(struct inputs *in, const uint64_t *values, size_t count)
{
	int precision = reference_format(in->dtype)->precision;

	reserve(in, 3, count * 6);
	for (size_t i = 0; i < count * 6; i++) {
		uint64_t value = values[i / 6];
		int exponent = reference_exponent(in->dtype, value);
		double half = ldexp(i % 2 ? 1 : -1, exponent - precision);
		double next = ldexp((double)(i % 6 / 2) - 1, exponent - 23);

		put(in->src[0], in->width, i, value);
		put(in->src[1], in->width, i, reference_encode(in->dtype, half));
		put(in->src[2], in->width, i, reference_encode(in->dtype, next));
	}
}

bool inputs_make(struct inputs *in, unsigned dtype, enum input_set set, bool brief)
{
	uint64_t *values;
	size_t count = values_of(dtype, brief, &values);

	memset(in, 0, sizeof(*in));
	in->dtype = dtype;
	in->width = smd_dtype_bytes(dtype);
	switch (set) {
	case INPUTS_ALONE:
		make_alone(in, values, count);
		break;
	case INPUTS_PAIRS:
		make_pairs(in, values, count, brief);
		break;
	case INPUTS_TRIPLES:
		make_triples(in, brief);
		break;
	case INPUTS_TIES:
		if (reference_format(dtype)) {
			make_ties(in, values, count);
		}
		break;
	default:
		reserve(in, MOST_RANKS, brief ? 307 : 2003);
		for (unsigned r = 0; r < MOST_RANKS; r++) {
			inputs_fill(in->src[r], dtype, in->count, r);
		}
	}
	free(values);
	return in->n > 0;
}

void inputs_free(struct inputs *in)
{
	for (unsigned r = 0; r < in->n; r++) {
		free(in->src[r]);
	}
	memset(in, 0, sizeof(*in));
}
