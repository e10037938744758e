/*
 * summand-nccl-perf: what passes between its parts.
 *
 * One process is one rank with one GPU. The numbers follow nccl-tests: algbw = bytes / time, busbw
 * = algbw * 2 (n - 1) / n, which is what each link of a ring would carry.
 */
#ifndef SMD_NCCL_PERF_NCCL_PERF_H
#define SMD_NCCL_PERF_NCCL_PERF_H

#include <nccl.h>
#include <stddef.h>
#include <stdint.h>

#include "reduction_server/base/error.h"

#define NCCL_PERF_SIZES_MAX 64

struct nccl_perf_settings {
	const char *id_file;
	int nranks;
	int rank;
	int device; /* -1: the rank's number, modulo the devices there are */
	uint64_t sizes[NCCL_PERF_SIZES_MAX]; /* bytes */
	unsigned nsizes;
	uint32_t dtypes; /* a bit for each of NCCL's numbers */
	uint32_t ops;
	int iters;
	int warmup;
	int timeout_s; /* that nothing happens for */
	int graph;     /* all-reduces are captured, and their graphs launched */
	int churn;     /* a thread allocates and frees meanwhile */
	int rounding;  /* sums of doubles that round */
	int json;
};

/* Of one way: into another buffer, or into the same. */
struct nccl_perf_figures {
	double us;
	uint64_t wrong; /* elements, on all ranks */
};

struct nccl_perf_row {
	uint64_t bytes;
	uint64_t count;
	unsigned dtype;
	unsigned op;
	struct nccl_perf_figures apart;
	struct nccl_perf_figures in_place;
	uint64_t hash;     /* of the result */
	int is_one_result; /* all ranks have the same bits */
};

/* Chooses this process's GPU. 0; with a text -ENODEV when there is none that can be used, -EINVAL
 * when there is none of that number. */
int nccl_perf_find_device(const struct nccl_perf_settings *settings, struct smd_error *error);

/* Runs everything as one rank; rank 0 prints. 0, -errno with a text, or 1 when a result was wrong.
 */
int nccl_perf_run(const struct nccl_perf_settings *settings, struct smd_error *error);

/*
 * The id by which the ranks find each other: rank 0 makes it and writes it into the file, which
 * must not be there yet; the others wait for it. Rank 0 removes the file when all have met.
 */
int nccl_perf_meet(
	const struct nccl_perf_settings *settings, ncclUniqueId *id, struct smd_error *error);
void nccl_perf_forget(const struct nccl_perf_settings *settings);

/* Of everything that was run. */
struct nccl_perf_totals {
	uint64_t wrong;
	unsigned differing; /* rows whose result is not the same on all ranks */
};

void nccl_perf_report_begin(const struct nccl_perf_settings *settings, int version);
void nccl_perf_report_row(
	const struct nccl_perf_settings *settings, const struct nccl_perf_row *row);
void nccl_perf_report_end(const struct nccl_perf_settings *settings, int version,
	const struct nccl_perf_row *rows, size_t nrows, const struct nccl_perf_totals *totals);

#endif
