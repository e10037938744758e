/*
 * A file of hosts, as DeepSpeed and Open MPI have it: a line "HOST [slots=N]" for each; "#" begins
 * a comment.
 */
#ifndef SMD_ENGINE_SSH_HOSTFILE_H
#define SMD_ENGINE_SSH_HOSTFILE_H

#include <stddef.h>

#include "orchestrator/engine/engine.h"

#define SMD_HOSTFILE_SLOTS_MAX 1000000
#define SMD_HOSTFILE_MAX       (16u << 20) /* bytes */

struct smd_hostfile_line {
	char *host;
	int slots;
};

/* In the file's order. */
struct smd_hostfile {
	struct smd_hostfile_line *lines;
	size_t count;
};

#endif
