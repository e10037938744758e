/*
 * Changes of the number of reduction servers while the job runs (specs/design/runner.md, "More and
 * fewer servers"). One request is carried out at a time; the answer is in state.json.
 */
#ifndef SMD_RUNNER_SCALING_H
#define SMD_RUNNER_SCALING_H

#include <stdint.h>

struct smd_run;

struct smd_scaling {
	int is_asked;     /* there is a request */
	int wanted;       /* servers, reducers on workers' hosts aside */
	int before;       /* the same, when it came */
	uint64_t seen_ns; /* when a request was looked for */
};

/* Takes a request that has come, and does what can be done of it now. */
void smd_scaling_turn(struct smd_run *run);

/* The hosts are given up: the next ones are asked for by the job file, so servers that were added
 * are no more, and those taken away are there again. */
void smd_scaling_forget(struct smd_run *run);

#endif
