/*
 * A file of hosts, as DeepSpeed and Open MPI have it: a line "HOST [slots=N]" for each; "#" begins a
 * comment.
 */
#ifndef SMD_ENGINE_SSH_HOSTFILE_H
#define SMD_ENGINE_SSH_HOSTFILE_H

#include <stddef.h>

#include "reduction_server/base/error.h"

#define SMD_HOSTFILE_SLOTS_MAX 1000000

struct smd_hostfile_line {
	char *host;
	int slots;
};

/* The hosts in the file's order, which the caller frees with smd_hostfile_free(). 0, or -errno with a
 * text that names the line. */
int smd_hostfile_read(const char *path, struct smd_hostfile_line **out, size_t *count,
	struct smd_error *error);
void smd_hostfile_free(struct smd_hostfile_line *lines, size_t count);

#endif
