/*
 * Random numbers for libevent's archive when it is part of the plugin. It would ask glibc 2.36 for
 * them, and the plugin is to be loaded where glibc is older (Ubuntu 22.04): CMakeLists.txt renames
 * what it asks for.
 */
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

uint32_t smd_random_number(void);
void smd_random_fill(void *bytes, size_t length);

void smd_random_fill(void *bytes, size_t length)
{
	uint8_t *at = bytes;

	while (length) {
		ssize_t got = getrandom(at, length, 0);

		if (got > 0) {
			at += got;
			length -= (size_t)got;
		}
	}
}

uint32_t smd_random_number(void)
{
	uint32_t number;

	smd_random_fill(&number, sizeof(number));
	return number;
}
