/* Reads how much processor time has passed. */
#include <stdio.h>
#include <sys/resource.h>

#include "worker/perf/perf.h"

/* The first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal; what comes
 * behind these is part of the first two. */
#define FIELDS     8
#define FIELD_IDLE 3
#define FIELD_WAIT 4

static void read_host(struct perf_processor *out)
{
	unsigned long long ticks[FIELDS] = {0};
	FILE *file = fopen("/proc/stat", "r");

	if (!file) {
		return;
	}
	if (fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &ticks[0], &ticks[1],
		    &ticks[2], &ticks[3], &ticks[4], &ticks[5], &ticks[6], &ticks[7]) == FIELDS) {
		for (int i = 0; i < FIELDS; i++) {
			out->host_ticks += (double)ticks[i];
		}
		out->idle_ticks = (double)(ticks[FIELD_IDLE] + ticks[FIELD_WAIT]);
	}
	fclose(file);
}

static struct perf_processor read_now(void)
{
	struct perf_processor now = {0};
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	now.own_us = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
		     (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
	read_host(&now);
	return now;
}

void perf_processor_begin(struct perf_processor *spent)
{
	*spent = read_now();
}

void perf_processor_end(struct perf_processor *spent)
{
	struct perf_processor now = read_now();

	spent->own_us = now.own_us - spent->own_us;
	spent->idle_ticks = now.idle_ticks - spent->idle_ticks;
	spent->host_ticks = now.host_ticks - spent->host_ticks;
}
