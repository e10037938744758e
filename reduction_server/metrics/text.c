/* Writes metrics in Prometheus' text format. */
#include "reduction_server/metrics/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/printable.h"

#define LABEL_MAX  512 /* of a value, before it is escaped; the rest is left out */
#define SIZE_FIRST 4096

static bool text_make_room(struct smd_metrics_text *text, size_t more)
{
	size_t size = text->size ? text->size : SIZE_FIRST;
	char *bytes;

	while (size - text->length <= more) {
		size *= 2;
	}
	if (size == text->size) {
		return true;
	}
	bytes = realloc(text->bytes, size);
	if (!bytes) {
		text->failed = true;
		return false;
	}
	text->bytes = bytes;
	text->size = size;
	return true;
}

static void text_add(struct smd_metrics_text *text, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void text_add(struct smd_metrics_text *text, const char *format, ...)
{
	va_list args;
	int length;

	va_start(args, format);
	length = vsnprintf(NULL, 0, format, args);
	va_end(args);
	if (length < 0 || text->failed || !text_make_room(text, (size_t)length)) {
		return;
	}
	va_start(args, format);
	vsnprintf(text->bytes + text->length, text->size - text->length, format, args);
	va_end(args);
	text->length += (size_t)length;
}

void smd_metrics_begin(
	struct smd_metrics_text *text, const char *name, const char *type, const char *help)
{
	text->name = name;
	text_add(text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* Backslash, quote and line end have an escape; other control characters become "?". */
static void text_add_value(struct smd_metrics_text *text, const char *value)
{
	char line[LABEL_MAX];
	const char *rest = value;

	while (rest) {
		const char *end = strchr(rest, '\n');

		snprintf(line, sizeof(line), "%.*s", end ? (int)(end - rest) : LABEL_MAX - 1, rest);
		smd_printable(line);
		for (const char *c = line; *c; c++) {
			text_add(text, *c == '\\' || *c == '"' ? "\\%c" : "%c", *c);
		}
		if (end) {
			text_add(text, "\\n");
		}
		rest = end ? end + 1 : NULL;
	}
}

static void text_add_name(struct smd_metrics_text *text, const struct smd_metrics_label *labels)
{
	const char *before = "{";

	text_add(text, "%s", text->name);
	for (; labels && labels->name; labels++) {
		text_add(text, "%s%s=\"", before, labels->name);
		text_add_value(text, labels->value);
		text_add(text, "\"");
		before = ",";
	}
	text_add(text, "%s ", before[0] == ',' ? "}" : "");
}

void smd_metrics_sample(
	struct smd_metrics_text *text, const struct smd_metrics_label *labels, double value)
{
	text_add_name(text, labels);
	if (isfinite(value)) {
		text_add(text, "%.15g\n", value);
	} else {
		text_add(text, "%s\n", isnan(value) ? "NaN" : value > 0 ? "+Inf" : "-Inf");
	}
}

void smd_metrics_count(
	struct smd_metrics_text *text, const struct smd_metrics_label *labels, uint64_t value)
{
	text_add_name(text, labels);
	text_add(text, "%llu\n", (unsigned long long)value);
}

void smd_metrics_single(struct smd_metrics_text *text, const char *name, const char *type,
	const char *help, double value)
{
	smd_metrics_begin(text, name, type, help);
	smd_metrics_sample(text, NULL, value);
}

void smd_metrics_free(struct smd_metrics_text *text)
{
	free(text->bytes);
	*text = (struct smd_metrics_text){0};
}

/* ---- this process ---- */

static double seconds_of(clockid_t clock)
{
	struct timespec now = {0};

	clock_gettime(clock, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / (double)SMD_SECOND_NS;
}

/* 0: it cannot be found out. */
static double resident_bytes(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	unsigned long pages = 0;

	if (!file) {
		return 0;
	}
	if (fscanf(file, "%*u %lu", &pages) != 1) {
		pages = 0;
	}
	fclose(file);
	return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

/* As far as it is known from field 22 of its stat, in ticks since the machine began. */
static double started_at(void)
{
	char line[1024] = "";
	FILE *file = fopen("/proc/self/stat", "re");
	unsigned long long ticks = 0;
	const char *rest;

	if (!file) {
		return 0;
	}
	rest = fgets(line, sizeof(line), file) ? strrchr(line, ')') : NULL;
	fclose(file);
	if (!rest || sscanf(rest,
			     ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d "
			     "%*d %*d %*d %*d %llu",
			     &ticks) != 1) {
		return 0;
	}
	return seconds_of(CLOCK_REALTIME) - seconds_of(CLOCK_BOOTTIME) +
	       (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

void smd_metrics_process(struct smd_metrics_text *text)
{
	smd_metrics_single(text, "process_cpu_seconds_total", "counter",
		"Processor time of this process, in seconds.",
		seconds_of(CLOCK_PROCESS_CPUTIME_ID));
	smd_metrics_single(text, "process_resident_memory_bytes", "gauge",
		"Memory of this process that is resident, in bytes.", resident_bytes());
	smd_metrics_single(text, "process_start_time_seconds", "gauge",
		"When this process began, in seconds since 1970.", started_at());
}
