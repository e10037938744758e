/* Reads the kernel's count of processes killed for lack of memory. */
#include "worker/agent/oom.h"

#include <stdio.h>

#define LINE_SIZE 128

long smd_oom_kills(void)
{
	FILE *file = fopen("/proc/vmstat", "re");
	char line[LINE_SIZE];
	long kills = -1;

	while (file && kills < 0 && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "oom_kill %ld", &kills) != 1) {
			kills = -1;
		}
	}
	if (file) {
		fclose(file);
	}
	return kills;
}
