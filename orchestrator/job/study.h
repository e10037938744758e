/*
 * What a hyperparameter tuning job looks for: which parameters its trials vary, by which metric
 * they are judged, and when it stops (Vertex AI, StudySpec).
 *
 * Parameters stand in one list. One that is only there where another one has certain values stands
 * behind that one, its parent. A *point* is a value for each parameter of the list: the number of a
 * double or an integer, the place among the values of a categorical or discrete one, NAN for one
 * that is not there.
 */
#ifndef SMD_JOB_STUDY_H
#define SMD_JOB_STUDY_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#define SMD_STUDY_INTEGER_MAX 9007199254740992.0 /* 2^53: a point's numbers are exact up to it */

enum smd_parameter_kind {
	SMD_PARAMETER_DOUBLE,
	SMD_PARAMETER_INTEGER,
	SMD_PARAMETER_CATEGORICAL,
	SMD_PARAMETER_DISCRETE
};

enum smd_scale { SMD_SCALE_LINEAR, SMD_SCALE_LOG, SMD_SCALE_REVERSE_LOG };

enum smd_algorithm { SMD_ALGORITHM_BAYESIAN, SMD_ALGORITHM_GRID, SMD_ALGORITHM_RANDOM };

enum smd_noise { SMD_NOISE_UNKNOWN, SMD_NOISE_LOW, SMD_NOISE_HIGH };

struct smd_parameter {
	char *id;
	enum smd_parameter_kind kind;
	enum smd_scale scale;
	double min; /* of a double or an integer */
	double max;
	char **values;   /* of the others, as the spec has them */
	double *numbers; /* of a discrete one */
	size_t nvalues;
	double initial; /* where to begin, as a point has it; NAN: the spec does not say */
	int parent;     /* its place in the list; -1: none, and it is always there */
	double *when;   /* the parent's values with which it is there, as a point has them */
	size_t nwhen;
};

struct smd_metric {
	char *id;
	int is_minimised;
};

/* The study ends when one of these holds; 0: does not count. */
struct smd_study_end {
	int is_prompt; /* trials that run are ended too */
	int min_trials;
	int max_trials;
	int max_trials_no_progress;
	int64_t min_runtime_s;
	int64_t max_runtime_s;
	int64_t max_no_progress_s;
};

struct smd_study {
	struct smd_metric *metrics;
	size_t nmetrics;
	struct smd_parameter *parameters;
	size_t nparameters;
	enum smd_algorithm algorithm;
	enum smd_noise noise;
	int takes_best;         /* of a trial's measurements; else its last one */
	int stops_below_median; /* trials that do worse than others did are ended early */
	int counts_elapsed;     /* that comparison is by time, and not by step */
	struct smd_study_end end;
};

void smd_study_free(struct smd_study *study);

/* Whether the parameter is there in the point, whose values before it are set. */
int smd_parameter_is_active(const struct smd_study *study, size_t place, const double *point);

/* The value as an argument has it; the caller frees it. NULL: out of memory. */
char *smd_parameter_text(const struct smd_parameter *parameter, double value);

/* The value as the API has it: a number, or a text. NULL: out of memory. */
json_t *smd_parameter_json(const struct smd_parameter *parameter, double value);

/* Where a job that runs no search begins: each parameter's own start, else its first value. */
void smd_study_first_point(const struct smd_study *study, double *point);

#endif
