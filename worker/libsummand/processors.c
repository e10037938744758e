/* Asks the kernel how much of their time this machine's processors were idle. */
#include "worker/libsummand/processors.h"

#include <inttypes.h>
#include <stdio.h>

#define LOOK_NS   100000000u /* the kernel counts in steps of 10 ms */
#define IDLE_LAST 8 /* of so many parts of the time one is idle, or less: all are at work */

/* What all of them together have done since the machine was started; 0: the kernel does not say. */
static uint64_t processors_read(uint64_t *idle)
{
	uint64_t ticks[8] = {
		0}; /* user, nice, system, idle, waiting for disks, irq, softirq, steal */
	FILE *file = fopen("/proc/stat", "re");
	uint64_t all = 0;
	int n = 0;

	if (file) {
		n = fscanf(file,
			"cpu %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
			" %" SCNu64 " %" SCNu64,
			&ticks[0], &ticks[1], &ticks[2], &ticks[3], &ticks[4], &ticks[5], &ticks[6],
			&ticks[7]);
		fclose(file);
	}
	for (int i = 0; i < n; i++) {
		all += ticks[i];
	}
	*idle = ticks[3] + ticks[4];
	return all;
}

void smd_processors_begin(struct smd_processors *processors, uint64_t now_ns)
{
	processors->all = processors_read(&processors->idle);
	processors->looked_ns = now_ns;
}

enum smd_load smd_processors_load(struct smd_processors *processors, uint64_t now_ns)
{
	struct smd_processors before = *processors;

	if (now_ns - before.looked_ns < LOOK_NS) {
		return SMD_LOAD_UNKNOWN;
	}
	smd_processors_begin(processors, now_ns);
	return (processors->idle - before.idle) * IDLE_LAST < processors->all - before.all
		       ? SMD_LOAD_FULL
		       : SMD_LOAD_LIGHT;
}
