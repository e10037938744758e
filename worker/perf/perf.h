/*
 * summand-perf: what passes between its parts.
 *
 * The numbers follow nccl-tests: algbw = bytes / time, busbw = algbw * 2 (n - 1) / n, which is what
 * each link of a ring would carry. Through reduction servers each link carries algbw each way.
 */
#ifndef SMD_PERF_PERF_H
#define SMD_PERF_PERF_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "reduction_server/base/error.h"
#include "worker/summand.h"

#define PERF_SIZES_MAX         64
#define PERF_INFLIGHT_MAX      1024
#define PERF_COMMS_MAX         256
#define PERF_LOCAL_SERVERS_MAX 64
#define PERF_BY_SIZE           INT_MIN /* more iterations of small sizes */

/* Sizes from min to max, each `factor` times the one before. */
struct perf_size_range {
	uint64_t min;
	uint64_t max;
	int factor;
};

struct perf_settings {
	const char *group;
	const char *servers;
	int nranks;
	int rank;
	uint64_t sizes[PERF_SIZES_MAX]; /* bytes */
	unsigned nsizes;
	unsigned dtype;
	unsigned wire; /* the type that it is sent as, if it has elements enough */
	int wire_given;
	unsigned op;
	int zeros; /* percent of each input that are zeros */
	int iters; /* of each size, or PERF_BY_SIZE */
	int warmup;   /* before these, the same */
	int inflight; /* operations at the same time */
	int rolling;  /* always as many, not all again when all have ended */
	int comms;    /* communicators that they are dealt to */
	int in_place;
	int each; /* iterations' times are kept, and all results are checked */
	int json;
	int local;         /* ranks to fork, 0: this process is one rank */
	int local_servers; /* servers to start for them */
};

/* Processor time from one moment to another: this process's, and this host's in ticks. */
struct perf_processor {
	double own_us;
	double idle_ticks;
	double host_ticks; /* of all processors, idle or not; 0 where it is not known */
};

void perf_processor_begin(struct perf_processor *spent);
void perf_processor_end(struct perf_processor *spent);

/* One size, of all iterations and the slowest rank of each figure. */
struct perf_row {
	uint64_t bytes;
	uint64_t count;
	int iters;
	int warmup;
	double median_us;
	double min_us;
	double max_us;
	double high_us; /* the 95th percentile */
	double mean_us; /* which bandwidth follows from where some operations pay for others */
	double cpu_us; /* processor time of a rank's process per operation, the mean of all ranks; 0
			  with one iteration */
	struct perf_processor spent; /* of this rank, in the timed iterations */
	uint64_t wrong;              /* elements, on all ranks */
	double *each_us; /* of this rank, in order, with settings->each; it is freed by the rank */
};

/* How many iterations there are of a size, and before these: the same on all ranks. What is fastest
 * for it is found out in the first ones. */
int perf_iters(const struct perf_settings *settings, uint64_t bytes);
int perf_warmup(const struct perf_settings *settings, uint64_t bytes);

/* Runs all sizes as one rank; rank 0 prints. 0, -errno with a text, or 1 when a result was wrong.
 */
int perf_run_rank(const struct perf_settings *settings, struct smd_error *error);

/* Starts servers and ranks on this machine. Returns the exit code. */
int perf_run_local(const struct perf_settings *settings, struct smd_error *error);

/* What so many elements are sent as: a few elements as they are, whatever `wire` is. So ranks that
 * differ in that agree on it, or the server refuses them. */
unsigned perf_sent_as(unsigned dtype, unsigned wire, size_t count);

/* An input of the rank: small whole numbers, whose reductions are known in every type and order. */
void perf_input_fill_whole(void *buffer, size_t count, unsigned dtype, unsigned op, int rank);
/*
 * The same, but for sums and averages of the widest real numbers, sent as such: they have
 * all their bits, and sums round. Those of three ranks and more have other bits in another order,
 * at every eighth element at least.
 */
void perf_input_fill(
	void *buffer, size_t count, unsigned dtype, unsigned wire, unsigned op, int rank);
/* Makes so many percent of it zeros, the same on all ranks. */
void perf_input_zero(void *buffer, size_t bytes, int percent);
/* How many elements of a reduction of all ranks' inputs have other bits than reducing in the order
 * of ranks gives, which were sent as `wire`, and of which `zeros` percent are zeros. */
uint64_t perf_input_check(const void *buffer, size_t count, unsigned dtype, unsigned wire,
	unsigned op, int nranks, int zeros);
/*
 * The same of whole numbers and a reduction that rounds after each step, in whatever order:
 * floating-point sums and averages, where they cannot be exact, may be off by the rounding errors
 * of all steps together.
 */
uint64_t perf_input_check_near(
	const void *buffer, size_t count, unsigned dtype, unsigned op, int nranks);

struct perf_kernel_settings {
	int inputs;
	uint64_t bytes; /* of each */
	int dtype;      /* these three: -1 for all */
	int op;
	int variant;
	int milliseconds; /* for each kernel */
	int json;
};

/* Measures the kernels and prints. 0 or -errno with a text. */
int perf_run_kernels(const struct perf_kernel_settings *settings, struct smd_error *error);

void perf_report_begin(const struct perf_settings *settings);
void perf_report_row(const struct perf_settings *settings, const struct perf_row *row);
/* `stats` are this rank's. */
void perf_report_end(const struct perf_settings *settings, const struct perf_row *rows,
	unsigned nrows, const struct smd_stats *stats);

#endif
