/*
 * Checks the kernels of one variant against the scalar ones, bit for bit: over the sets of
 * inputs.h, and over lengths, alignments, numbers of ranks and destinations that are a source.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/dtype.h"
#include "tests/kernels/check.h"
#include "tests/kernels/guarded.h"
#include "tests/kernels/inputs.h"
#include "worker/summand.h"

#define MOST_COUNT 100003
#define MARGIN     64 /* bytes before and after dst that must stay, and the offsets that are tried */
#define UNTOUCHED  0xa5

/* One run of a kernel. src lies in `from`, dst in `to` or in one of these. */
struct run {
	const char *variant;
	unsigned dtype;
	unsigned op;
	smd_kernel *kernel;
	unsigned n;
	size_t count;
	const void *src[MOST_RANKS];
	unsigned char *dst;
};

struct bench {
	const char *variant;
	find_kernel *find;
	bool brief;
	size_t runs;
	unsigned wrong;
	struct guarded from[MOST_RANKS];
	struct guarded to;
	unsigned char *must; /* what the scalar kernel gives */
};

static char now[160];

static void tell(const struct run *run)
{
	snprintf(now, sizeof(now), "%s %s %s, %u ranks, %zu elements", smd_dtype_name(run->dtype),
		smd_op_name(run->op), run->variant, run->n, run->count);
}

static void make_must(struct bench *bench, const struct run *run)
{
	smd_kernel *scalar = smd_kernel_find_variant(run->dtype, run->op, SMD_VARIANT_SCALAR);

	scalar(bench->must, run->src, run->n, run->count);
}

static void print_mismatch(struct bench *bench, const struct run *run)
{
	size_t width = smd_dtype_bytes(run->dtype);
	size_t i = 0;

	while (memcmp(run->dst + i * width, bench->must + i * width, width) == 0) {
		i++;
	}
	printf("MISMATCH %s, sources at %p.., result at %p: element %zu must be 0x%llx as "
	       "scalar's, got 0x%llx\n",
		now, run->src[0], (void *)run->dst, i,
		(unsigned long long)inputs_get(bench->must, width, i),
		(unsigned long long)inputs_get(run->dst, width, i));
}

/* Runs the kernel and compares with bench->must. `fresh`: dst is none of the sources. */
static void compare(struct bench *bench, const struct run *run, bool fresh)
{
	size_t bytes = run->count * smd_dtype_bytes(run->dtype);
	size_t after = (size_t)(bench->to.high - (run->dst + bytes));
	unsigned char guard[MARGIN];
	bool kept = true;

	if (bench->wrong > 20) {
		return; /* enough to read */
	}
	after = after < MARGIN ? after : MARGIN;
	memset(guard, UNTOUCHED, sizeof(guard));
	if (fresh) {
		memset(run->dst - MARGIN, UNTOUCHED, MARGIN + bytes + after);
	}
	tell(run);
	run->kernel(run->dst, run->src, run->n, run->count);
	bench->runs++;
	if (fresh) {
		kept = memcmp(run->dst - MARGIN, guard, MARGIN) == 0 &&
		       memcmp(run->dst + bytes, guard, after) == 0;
	}
	if (!kept) {
		printf("MISMATCH %s: the bytes around the result must stay\n", now);
	}
	if (memcmp(run->dst, bench->must, bytes) != 0) {
		print_mismatch(bench, run);
		kept = false;
	}
	bench->wrong += !kept;
}

/* ---- values ---- */

static void check_set(struct bench *bench, const struct inputs *in, struct run *run)
{
	size_t most = (size_t)(bench->to.high - bench->to.low - MARGIN) / in->width;

	for (size_t done = 0; done < in->count; done += run->count) {
		run->count = in->count - done < most ? in->count - done : most;
		run->n = in->n;
		for (unsigned r = 0; r < in->n; r++) {
			run->src[r] = in->src[r] + done * in->width;
		}
		run->dst = bench->to.high - run->count * in->width;
		make_must(bench, run);
		compare(bench, run, true);
	}
}

static void check_values(struct bench *bench, struct run *run)
{
	struct inputs in;

	for (unsigned set = 0; set < INPUTS_SETS; set++) {
		if (!inputs_make(&in, run->dtype, (enum input_set)set, bench->brief)) {
			continue;
		}
		for (run->op = 0; run->op < SMD_OP_COUNT; run->op++) {
			run->kernel = bench->find(run->dtype, run->op);
			check_set(bench, &in, run);
		}
		inputs_free(&in);
	}
}

/* ---- lengths, alignments, destinations ---- */

/* The sources end where the guard pages begin; with an odd length, the result does not. */
static void check_length(struct bench *bench, struct run *run, size_t count)
{
	size_t bytes = count * smd_dtype_bytes(run->dtype);

	run->count = count;
	for (unsigned r = 0; r < run->n; r++) {
		run->src[r] = bench->from[r].high - bytes;
	}
	run->dst = bench->to.high - bytes - (count % 2 ? count % MARGIN : 0);
	make_must(bench, run);
	compare(bench, run, true);
}

static void check_lengths(struct bench *bench, struct run *run)
{
	static const size_t larger[] = {
		511, 512, 513, 1023, 1024, 1025, 4095, 4096, 4097, MOST_COUNT /* not in brief */};
	static const unsigned few[] = {1, 2, 3, 8, MOST_RANKS};

	for (unsigned i = 1; i <= (bench->brief ? 5 : MOST_RANKS); i++) {
		run->n = bench->brief ? few[i - 1] : i;
		for (size_t count = 0; count <= 300; count++) {
			check_length(bench, run, count);
		}
		for (size_t k = 0; k < sizeof(larger) / sizeof(larger[0]) - bench->brief; k++) {
			check_length(bench, run, larger[k]);
		}
	}
}

/* The first elements of the sources, at the front of their memory, each source at an offset. */
static void check_offset(struct bench *bench, struct run *run, size_t offset)
{
	size_t width = smd_dtype_bytes(run->dtype);

	for (unsigned r = 0; r < run->n; r++) {
		unsigned char *at = bench->from[r].low + (offset + 11 * r) % MARGIN;

		memcpy(at, bench->from[r].high - run->count * width, run->count * width);
		run->src[r] = at;
	}
	run->dst = bench->to.low + MARGIN + offset * 5 % MARGIN;
	make_must(bench, run);
	compare(bench, run, true);
}

static void check_offsets(struct bench *bench, struct run *run)
{
	static const size_t counts[] = {1, 63, 64, 129, 1025};

	run->n = 3;
	for (size_t k = 0; k < sizeof(counts) / sizeof(counts[0]); k++) {
		run->count = counts[k];
		for (size_t offset = 0; offset < MARGIN; offset++) {
			check_offset(bench, run, offset);
		}
	}
}

/* Source k is copied to where the result goes. */
static void check_own_source(struct bench *bench, struct run *run, unsigned k)
{
	size_t bytes = run->count * smd_dtype_bytes(run->dtype);

	for (unsigned r = 0; r < run->n; r++) {
		run->src[r] = bench->from[r].high - bytes;
	}
	make_must(bench, run);
	run->dst = bench->to.low + MARGIN + run->count % MARGIN;
	memcpy(run->dst, run->src[k], bytes);
	run->src[k] = run->dst;
	compare(bench, run, false);
}

static void check_own_sources(struct bench *bench, struct run *run)
{
	static const size_t counts[] = {1, 7, 64, 300, 4097};

	for (run->n = 1; run->n <= 5; run->n++) {
		for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
			run->count = counts[i];
			for (unsigned k = 0; k < run->n; k++) {
				check_own_source(bench, run, k);
			}
		}
	}
}

static void check_places(struct bench *bench, struct run *run)
{
	size_t bytes = MOST_COUNT * smd_dtype_bytes(run->dtype);

	for (unsigned r = 0; r < MOST_RANKS; r++) {
		inputs_fill(bench->from[r].high - bytes, run->dtype, MOST_COUNT, 100 + r);
	}
	for (run->op = 0; run->op < SMD_OP_COUNT; run->op++) {
		run->kernel = bench->find(run->dtype, run->op);
		check_lengths(bench, run);
		check_offsets(bench, run);
		check_own_sources(bench, run);
	}
}

unsigned check_variant(const char *name, find_kernel *find, bool brief)
{
	const size_t bytes = MOST_COUNT * sizeof(uint64_t) + 2 * MARGIN;
	struct bench bench = {.variant = name, .find = find, .brief = brief};

	guarded_tell(now);
	for (unsigned r = 0; r < MOST_RANKS; r++) {
		bench.from[r] = guarded_make(bytes);
	}
	bench.to = guarded_make(bytes);
	bench.must = malloc((size_t)(bench.to.high - bench.to.low));
	if (!bench.must) {
		abort();
	}
	for (unsigned dtype = 0; dtype < SMD_DTYPE_COUNT; dtype++) {
		struct run run = {.variant = name, .dtype = dtype};

		check_values(&bench, &run);
		check_places(&bench, &run);
	}
	free(bench.must);
	guarded_free(&bench.to);
	for (unsigned r = 0; r < MOST_RANKS; r++) {
		guarded_free(&bench.from[r]);
	}
	printf("%s: the bits of scalar for 12 types, 5 reductions; %zu runs over values, lengths, "
	       "alignments, 1 to %d ranks, results in a source: %s\n",
		name, bench.runs, MOST_RANKS, bench.wrong ? "MISMATCHES" : "ok");
	return bench.wrong;
}
