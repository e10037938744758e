/*
 * Metrics in Prometheus' text format, written one after the other (specs/guide/metrics.md).
 *
 * Nothing fails in between: who has written everything asks once whether there was memory for it.
 */
#ifndef SMD_METRICS_TEXT_H
#define SMD_METRICS_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SMD_METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

struct smd_metrics_text {
	char *bytes; /* with a zero behind them; NULL: none yet */
	size_t length;
	size_t size;
	bool failed;      /* there was no memory */
	const char *name; /* of the metric whose samples follow */
};

/* One of a list that ends with a name of NULL. The value may be any bytes. */
struct smd_metrics_label {
	const char *name;
	const char *value;
};

/* Begins a metric. `type`: "counter" or "gauge". `name` must live until the next one. */
void smd_metrics_begin(
	struct smd_metrics_text *text, const char *name, const char *type, const char *help);

/* A sample of it. `labels` may be NULL. */
void smd_metrics_sample(
	struct smd_metrics_text *text, const struct smd_metrics_label *labels, double value);
void smd_metrics_count(
	struct smd_metrics_text *text, const struct smd_metrics_label *labels, uint64_t value);

/* A metric of one sample without labels. */
void smd_metrics_single(struct smd_metrics_text *text, const char *name, const char *type,
	const char *help, double value);

/* This process: processor time, memory, when it began. */
void smd_metrics_process(struct smd_metrics_text *text);

void smd_metrics_free(struct smd_metrics_text *text);

#endif
