/*
 * The file of CLOUD_ML_HP_METRIC_FILE, as cloudml-hypertune writes it: one JSON object for each
 * report, {"accuracy": "0.93", "global_step": "10", "timestamp": 1700000000.1, "trial": "1"}, of
 * which the last hundred are written anew each time. Numbers may be strings. A program may be
 * writing it just now, or write anything else.
 */
#ifndef SMD_TUNING_METRIC_FILE_H
#define SMD_TUNING_METRIC_FILE_H

#include "orchestrator/tuning/measurements.h"

#define SMD_METRIC_FILE_MAX (1 << 20) /* bytes that are read: the last ones */
#define SMD_METRIC_ID_SIZE  64

/* What else there was, to say why there is no measurement. */
struct smd_metric_remarks {
	char other[SMD_METRIC_ID_SIZE]; /* a metric that was reported instead; or empty */
	int has_no_number;              /* a value was none: NaN, infinite, or a text */
};

/* Takes what is reported of the metric; `now` stands for a time that is missing. 0 or -ENOMEM. */
int smd_metric_file_read(const char *text, size_t length, double now,
	const struct smd_metric *metric, struct smd_measurements *measurements,
	struct smd_metric_remarks *remarks);

#endif
