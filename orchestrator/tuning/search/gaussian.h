/*
 * A Gaussian process over the points of a study: what a metric is likely to be at a point, and how
 * sure that is, by what was measured at others.
 *
 * Its covariance is Matern's with smoothness 5/2, with a length of its own for each parameter;
 * these and the noise are those under which the measurements are most likely. Two points differ in
 * a parameter by their distance on its scale; wholly, where they have two values of a categorical
 * one, or where only one of them has the parameter at all.
 */
#ifndef SMD_TUNING_SEARCH_GAUSSIAN_H
#define SMD_TUNING_SEARCH_GAUSSIAN_H

#include "orchestrator/job/study.h"

struct smd_gaussian {
	const struct smd_study *study;
	size_t count;        /* of points */
	size_t room;         /* for points */
	double *places;      /* of each point the place of each parameter; NAN: it is not there */
	double *values;      /* measured, with mean 0 and deviation 1 */
	double *cholesky;    /* of the covariance, lower, rows of `room` numbers */
	double *weights;     /* the inverse of the covariance times values */
	double *row;         /* for one point's covariances with the others */
	double *at;          /* for one point's places */
	double *log_lengths; /* of each parameter */
	double *weight_of;   /* of each parameter: 1 / length^2 */
	double log_noise;    /* of a measurement's, by the variance of the process */
	double variance;     /* of the process */
};

/* 0 or -ENOMEM. There is room for as many points. */
int smd_gaussian_open(struct smd_gaussian *gaussian, const struct smd_study *study, size_t room);
void smd_gaussian_close(struct smd_gaussian *gaussian);

/* Adds a point; the next fit or settle takes it into account. */
void smd_gaussian_add(struct smd_gaussian *gaussian, const double *point, double value);

/* Finds lengths and noise for the points. 0; -EDOM: the points say nothing. */
int smd_gaussian_fit(struct smd_gaussian *gaussian, uint64_t *random);

/* Takes new points into account, with lengths and noise as they are. 0 or -EDOM. */
int smd_gaussian_settle(struct smd_gaussian *gaussian);

/* What is to be expected at a point. */
void smd_gaussian_predict(
	const struct smd_gaussian *gaussian, const double *point, double *mean, double *deviation);

#endif
