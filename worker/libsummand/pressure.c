/* Reads for how long tasks of this host have waited for a processor. */
#include "worker/libsummand/pressure.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TOTAL "total="

uint64_t smd_pressure_parse(const char *text)
{
	const char *total = strncmp(text, "some ", 5) == 0 ? strstr(text, TOTAL) : NULL;

	return total ? strtoull(total + strlen(TOTAL), NULL, 10) * 1000 : 0;
}

uint64_t smd_pressure_waited_ns(void)
{
	char text[256];
	int fd = open("/proc/pressure/cpu", O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0) {
		return 0;
	}
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n < 0) {
		return 0;
	}
	text[n] = '\0';
	return smd_pressure_parse(text);
}
