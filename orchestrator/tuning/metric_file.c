/* Reads reports of metrics, line by line. */
#include "orchestrator/tuning/metric_file.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/printable.h"

#define LINE_MAX_SIZE 65536

/* A number, or a text that is one; NAN. */
static double number_of(const json_t *value)
{
	const char *text = json_string_value(value);
	char *end;
	double number;

	if (!text) {
		return json_is_number(value) ? json_number_value(value) : NAN;
	}
	number = strtod(text, &end);
	return end != text && *end == '\0' ? number : NAN;
}

static int64_t step_of(const json_t *value)
{
	double step = number_of(value);

	return step >= 0 && step <= SMD_STUDY_INTEGER_MAX ? (int64_t)step : 0;
}

static int is_own_key(const char *key)
{
	static const char *const keys[] = {"checkpoint_path", "global_step", "timestamp", "trial"};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		if (strcmp(key, keys[i]) == 0) {
			return 1;
		}
	}
	return 0;
}

static void remark_other(json_t *report, struct smd_metric_remarks *remarks)
{
	const char *key;
	json_t *value;

	json_object_foreach (report, key, value) {
		if (!remarks->other[0] && !is_own_key(key)) {
			snprintf(remarks->other, sizeof(remarks->other), "%s", key);
			smd_printable(remarks->other);
		}
	}
}

static int take_report(json_t *report, double now, const struct smd_metric *metric,
	struct smd_measurements *measurements, struct smd_metric_remarks *remarks)
{
	const json_t *value = json_object_get(report, metric->id);
	struct smd_measurement measurement = {
		.step = step_of(json_object_get(report, "global_step")),
		.time = number_of(json_object_get(report, "timestamp")),
		.value = number_of(value)};

	if (!value) {
		remark_other(report, remarks);
		return 0;
	}
	if (!isfinite(measurement.value)) {
		remarks->has_no_number = 1;
		return 0;
	}
	if (!isfinite(measurement.time)) {
		measurement.time = NAN;
	}
	return smd_measurements_add(measurements, metric, measurement, now);
}

/* A line that is no object, or the half of one, is nothing. */
static int take_line(const char *line, size_t length, double now, const struct smd_metric *metric,
	struct smd_measurements *measurements, struct smd_metric_remarks *remarks)
{
	json_t *report;
	int ret;

	if (length > LINE_MAX_SIZE) {
		return 0;
	}
	report = json_loadb(line, length, 0, NULL);
	ret = json_is_object(report) ? take_report(report, now, metric, measurements, remarks) : 0;
	json_decref(report);
	return ret;
}

int smd_metric_file_read(const char *text, size_t length, double now,
	const struct smd_metric *metric, struct smd_measurements *measurements,
	struct smd_metric_remarks *remarks)
{
	int ret = 0;

	while (length > 0 && !ret) {
		const char *newline = memchr(text, '\n', length);
		size_t line = newline ? (size_t)(newline - text) : length;

		ret = take_line(text, line, now, metric, measurements, remarks);
		line += newline != NULL;
		text += line;
		length -= line;
	}
	return ret;
}
