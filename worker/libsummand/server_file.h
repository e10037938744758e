/*
 * The file that names servers that are added while the process runs (SUMMAND_SERVERS_FILE).
 *
 * Its last line has all servers that there have ever been, in the form of
 * SUMMAND_REDUCTION_SERVERS: first those of the configuration, then those that were added, in the
 * order in which that was done, so that all ranks number them alike whenever they look. It is
 * replaced as a whole, and looked at once a second, on the owner of the progress engine.
 */
#ifndef SMD_LIBSUMMAND_SERVER_FILE_H
#define SMD_LIBSUMMAND_SERVER_FILE_H

#include <stdbool.h>
#include <sys/stat.h>

#include "worker/libsummand/config.h"

struct event;
struct event_base;

/* It is the next of config->servers, which the call counts when it has taken it. */
typedef void smd_server_file_add(void *owner, const char *address);

struct smd_server_file {
	struct event *timer; /* NULL: nothing is watched */
	struct smd_config *config;
	smd_server_file_add *add;
	void *owner;
	struct stat seen;
	bool told; /* that it cannot be used */
};

/* Without a file, or memory, nothing is watched. */
void smd_server_file_watch(struct smd_server_file *file, struct smd_config *config,
	struct event_base *base, smd_server_file_add *add, void *owner);
void smd_server_file_end(struct smd_server_file *file);

#endif
