/*
 * The space of a study's points: how a point lies in the unit cube, what is random in it, what
 * comes next on its grid.
 */
#ifndef SMD_TUNING_SEARCH_SPACE_H
#define SMD_TUNING_SEARCH_SPACE_H

#include "orchestrator/job/study.h"

/* A pseudo-random number from 0 to below 1. */
double smd_space_uniform(uint64_t *random);

/* A pseudo-random number of the normal distribution with mean 0 and deviation 1. */
double smd_space_normal(uint64_t *random);

/* The parameter's value at a place from 0 to 1 of its scale; of a categorical one the place counts
 * its values. Whole numbers and values of lists take equal parts of it. */
double smd_parameter_at(const struct smd_parameter *parameter, double place);

/* Where a value lies: the reverse. A value of a list lies in the middle of its part, but a discrete
 * one where its number does. */
double smd_parameter_place(const struct smd_parameter *parameter, double value);

/* Whether the parameter has one value alone. */
int smd_parameter_is_fixed(const struct smd_parameter *parameter);

/* The point at a place of each parameter; those that are not there become NAN. */
void smd_space_at(const struct smd_study *study, const double *places, double *point);

void smd_space_random(const struct smd_study *study, uint64_t *random, double *point);

int smd_space_is_same(const struct smd_study *study, const double *one, const double *other);

/* The first point of the grid, in which the last parameter varies fastest. */
void smd_space_grid_first(const struct smd_study *study, double *point);

/* Makes the point the next one of the grid. 0; -ENOENT: it was the last one. */
int smd_space_grid_next(const struct smd_study *study, double *point);

#endif
