/*
 * One history: servers, ranks and what goes wrong, all drawn from a seed (virtual_time.h), and
 * whether it ended as it must (specs/design/simulation.md).
 */
#ifndef SMD_TESTS_SIMULATION_HISTORY_H
#define SMD_TESTS_SIMULATION_HISTORY_H

#include <stdint.h>
#include <stdio.h>

#include "tests/simulation/plan.h"

/* Runs it in this process, which is used up then. 0, or 1 with what was wrong on `out`; what it was
 * is there too. */
int history_run(enum plan_kind kind, uint64_t seed, FILE *out);

#endif
