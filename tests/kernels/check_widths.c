/* Checks how whole buffers are narrowed and widened: every value, lengths, alignments, and in
 * place. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/dtype.h"
#include "reduction_server/kernels/convert.h"
#include "tests/kernels/check.h"
#include "tests/kernels/guarded.h"
#include "worker/summand.h"

#define MOST    (1u << 16)
#define MARGIN  8 /* bytes: the offsets that are tried */
#define OF_ALL  65537u
#define LENGTHS 1100

struct widths {
	const char *variant;
	unsigned dtype;
	smd_width_kernel *narrow;
	smd_width_kernel *widen;
	unsigned wrong;
};

/* Of NaN it is not said which one. */
static bool is_same(const void *got, const void *must, size_t width)
{
	float one;
	float other;

	if (memcmp(got, must, width) == 0) {
		return true;
	}
	if (width != sizeof(float)) {
		return false;
	}
	memcpy(&one, got, width);
	memcpy(&other, must, width);
	return one != one && other != other;
}

static void expect(struct widths *widths, const char *what, const void *got, const void *must,
	size_t width, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (!is_same(
			    (const char *)got + i * width, (const char *)must + i * width, width)) {
			printf("MISMATCH %s of %s in %s: element %zu of %zu is not as a single "
			       "one\n",
				what, smd_dtype_name(widths->dtype), widths->variant, i, count);
			widths->wrong++;
			return;
		}
	}
}

/* The same by single elements. */
static void make_must(
	const struct widths *widths, const float *wide, uint16_t *narrow, float *back, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		smd_element_encode(&narrow[i], (enum smd_dtype)widths->dtype, (double)wide[i]);
		back[i] = (float)smd_element_decode(&narrow[i], (enum smd_dtype)widths->dtype);
	}
}

/* Beside each other, then one over the other; what is around `memory` is guarded. */
static void check_buffer(struct widths *widths, const float *wide, size_t count,
	struct guarded *memory, size_t offset)
{
	static uint16_t narrow[MOST];
	static float back[MOST];
	static uint16_t got[MOST];
	unsigned char *place = memory->high - count * sizeof(float) - offset;

	make_must(widths, wide, narrow, back, count);
	memcpy(place, wide, count * sizeof(float));
	widths->narrow(got, place, count);
	expect(widths, "narrowing", got, narrow, sizeof(*got), count);
	widths->widen(place, got, count);
	expect(widths, "widening", place, back, sizeof(float), count);
	memcpy(place, wide, count * sizeof(float));
	widths->narrow(place, place, count);
	expect(widths, "narrowing in place", place, narrow, sizeof(*got), count);
	widths->widen(place, place, count);
	expect(widths, "widening in place", place, back, sizeof(float), count);
}

static void check_type(struct widths *widths, struct guarded *memory)
{
	static float wide[MOST];
	uint32_t bits = 0;

	/* One float32 in OF_ALL, NaN and infinities among them; as they wrap, the last ones too. */
	for (size_t i = 0; i < MOST; i++, bits += OF_ALL) {
		memcpy(&wide[i], &bits, sizeof(bits));
	}
	check_buffer(widths, wide, MOST, memory, 0);
	/* Every value of the narrow type. */
	for (size_t i = 0; i < MOST; i++) {
		uint16_t value = (uint16_t)i;

		wide[i] = (float)smd_element_decode(&value, (enum smd_dtype)widths->dtype);
	}
	check_buffer(widths, wide, MOST, memory, 0);
	for (size_t count = 0; count < LENGTHS; count++) {
		check_buffer(widths, wide + count, count, memory, count % MARGIN);
	}
}

unsigned check_widths(const char *name, enum smd_variant variant)
{
	static const unsigned dtypes[] = {SMD_FLOAT16, SMD_BFLOAT16};
	struct guarded memory;
	unsigned wrong = 0;

	memory = guarded_make((MOST + 2) * sizeof(float));
	for (size_t k = 0; k < sizeof(dtypes) / sizeof(dtypes[0]); k++) {
		struct widths widths = {.variant = name,
			.dtype = dtypes[k],
			.narrow = smd_narrow_find_variant(dtypes[k], variant),
			.widen = smd_widen_find_variant(dtypes[k], variant)};

		check_type(&widths, &memory);
		wrong += widths.wrong;
	}
	guarded_free(&memory);
	printf("%s: float32 to float16 and bfloat16 and back, every narrow value and lengths up to "
	       "%d: %s\n",
		name, LENGTHS, wrong ? "MISMATCHES" : "ok");
	return wrong;
}
