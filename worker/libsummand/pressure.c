/* Reads for how long tasks of this host have waited for a processor. */
#include "worker/libsummand/pressure.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX 65536 /* lines of some hundred processors, which stand for all */
#define TOTAL    "total="
/* Of a processor, since version 15: seven numbers, and for how many ns tasks have waited for it. */
#define PROCESSOR "cpu%*u %*u %*u %*u %*u %*u %*u %*u %llu"

uint64_t smd_pressure_parse(const char *text)
{
	const char *total = strncmp(text, "some ", 5) == 0 ? strstr(text, TOTAL) : NULL;

	return total ? strtoull(total + strlen(TOTAL), NULL, 10) * 1000 : 0;
}

uint64_t smd_pressure_parse_delays(const char *text)
{
	uint64_t delays = 0;
	unsigned processors = 0;

	for (const char *line = text; line; line = strchr(line, '\n')) {
		unsigned long long delay;

		line += *line == '\n';
		if (sscanf(line, PROCESSOR, &delay) == 1) {
			delays += delay;
			processors++;
		}
	}
	return processors ? delays / processors : 0;
}

/* As much of a file as there is room for. Whether there is any. */
static bool read_text(const char *path, char *text, size_t size)
{
	FILE *file = fopen(path, "re");
	size_t n;

	if (!file) {
		return false;
	}
	n = fread(text, 1, size - 1, file);
	text[n] = '\0';
	fclose(file);
	return n > 0;
}

uint64_t smd_pressure_waited_ns(void)
{
	char some[256];
	uint64_t waited = 0;
	char *delays;

	if (read_text("/proc/pressure/cpu", some, sizeof(some))) {
		return smd_pressure_parse(some);
	}
	delays = malloc(TEXT_MAX);
	if (delays && read_text("/proc/schedstat", delays, TEXT_MAX)) {
		waited = smd_pressure_parse_delays(delays);
	}
	free(delays);
	return waited;
}
