/* Finds out what this machine has. */
#include "orchestrator/service/room.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Those that this process may use. */
static int64_t count_processors(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) ? sysconf(_SC_NPROCESSORS_ONLN)
						       : CPU_COUNT(&set);
}

static int64_t count_memory(void)
{
	return (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
}

int smd_room_open(struct smd_room *room, const struct smd_demand *wanted, struct smd_error *error)
{
	*room = (struct smd_room){.capacity = *wanted};
	if (smd_gpus_find(&room->gpus, getenv("CUDA_VISIBLE_DEVICES"))) {
		return smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
	}
	if (wanted->cpus < 0) {
		room->capacity.cpus = count_processors();
	}
	if (wanted->memory_bytes < 0) {
		room->capacity.memory_bytes = count_memory();
	}
	if (wanted->gpus < 0) {
		room->capacity.gpus = (int64_t)room->gpus.count;
	}
	return 0;
}

void smd_room_close(struct smd_room *room)
{
	smd_gpus_clear(&room->gpus);
}

static int names(const char *list, const char *id)
{
	size_t length = strlen(id);

	while (list) {
		if (strncmp(list, id, length) == 0 && (list[length] == ',' || !list[length])) {
			return 1;
		}
		list = strchr(list, ',');
		list = list ? list + 1 : NULL;
	}
	return 0;
}

static int is_taken(const char *id, const char *const *taken, size_t ntaken)
{
	for (size_t i = 0; i < ntaken; i++) {
		if (names(taken[i], id)) {
			return 1;
		}
	}
	return 0;
}

char *smd_room_devices(
	const struct smd_room *room, size_t count, const char *const *taken, size_t ntaken)
{
	char *list = NULL;
	size_t length = 0;
	size_t found = 0;
	FILE *out = open_memstream(&list, &length);

	for (size_t i = 0; out && i < room->gpus.count && found < count; i++) {
		if (!is_taken(room->gpus.ids[i], taken, ntaken)) {
			fprintf(out, "%s%s", found++ ? "," : "", room->gpus.ids[i]);
		}
	}
	if (!out || fclose(out) || found < count) {
		free(list);
		return NULL;
	}
	return list;
}
