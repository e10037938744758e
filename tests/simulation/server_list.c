/* Writes the list of servers, and keeps its file in memory. */
#include "tests/simulation/server_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/simulation/world.h"

static char first[512];
static int file = -1;

static void list(unsigned nservers, char *out, size_t room)
{
	size_t length = 0;

	for (unsigned i = 0; i < nservers && length < room; i++) {
		length += (size_t)snprintf(
			out + length, room - length, "%sloopback:%u", i ? "," : "", i);
	}
}

void server_list_begin(unsigned nservers, bool grows)
{
	char path[64];

	list(nservers, first, sizeof(first));
	if (!grows) {
		return;
	}
	file = memfd_create("servers", MFD_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	if (file < 0 || setenv("SUMMAND_SERVERS_FILE", path, 1)) {
		world_fail("there is no file that names servers");
	}
	server_list_name(nservers);
}

const char *server_list_first(void)
{
	return first;
}

/* At once, as nobody else has a turn meanwhile. */
void server_list_name(unsigned nservers)
{
	static unsigned named;
	char line[512];

	if (nservers <= named) {
		return;
	}
	named = nservers;
	list(nservers, line, sizeof(line) - 1);
	strcat(line, "\n");
	if (pwrite(file, line, strlen(line), 0) != (ssize_t)strlen(line)) {
		world_fail("the file that names servers cannot be written");
	}
}
