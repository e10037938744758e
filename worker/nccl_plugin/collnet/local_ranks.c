/* Finds the launcher by the variable that it gives to ranks and has not itself. */
#include "worker/nccl_plugin/collnet/local_ranks.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Slurm's come last: all of a step's processes have them, and torchrun or mpirun may be one of these. */
static const char *const names[] = {
	"LOCAL_WORLD_SIZE",           /* torchrun */
	"OMPI_COMM_WORLD_LOCAL_SIZE", /* Open MPI */
	"MPI_LOCALNRANKS",            /* MPICH */
	"MV2_COMM_WORLD_LOCAL_SIZE",  /* MVAPICH */
	"HOROVOD_LOCAL_SIZE",
	"SLURM_NTASKS_PER_NODE",
	"SLURM_STEP_TASKS_PER_NODE", /* srun's: "8(x2)", of the first node on */
};

static bool read_count(const char *text, unsigned *count)
{
	char *end;
	unsigned long number;

	if (!text || text[0] < '0' || text[0] > '9') {
		return false;
	}
	number = strtoul(text, &end, 10);
	if (number < 1 || number > UINT16_MAX || !strchr("(,", *end)) {
		return false;
	}
	*count = (unsigned)number;
	return true;
}

/* Which of them says how many ranks there are. NULL: none. */
static const char *find_name(unsigned *count)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (read_count(getenv(names[i]), count)) {
			return names[i];
		}
	}
	return NULL;
}

/* Whether a process was started with the variable. One that nobody may look into, as srun's daemon,
 * passes for one that was not. */
static bool process_has(pid_t pid, const char *name)
{
	size_t length = strlen(name);
	bool has = false;
	char *entry = NULL;
	size_t size = 0;
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
	file = fopen(path, "re");
	while (file && !has && getdelim(&entry, &size, '\0', file) > 0) {
		has = strncmp(entry, name, length) == 0 && entry[length] == '=';
	}
	free(entry);
	if (file) {
		fclose(file);
	}
	return has;
}

static pid_t parent_of(pid_t pid)
{
	int parent = 0;
	char line[128];
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "PPid: %d", &parent) == 1) {
			break;
		}
	}
	if (file) {
		fclose(file);
	}
	return parent;
}

void smd_local_ranks_find(struct smd_local_ranks *ranks)
{
	const char *name;

	*ranks = (struct smd_local_ranks){.count = 1};
	name = find_name(&ranks->count);
	if (!name) {
		return;
	}
	ranks->launcher = getppid();
	while (ranks->launcher && process_has(ranks->launcher, name)) {
		/* A script around the rank. */
		ranks->launcher = parent_of(ranks->launcher);
	}
}
