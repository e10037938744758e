/* Remembers runners that are on their way to their jobs. */
#include "orchestrator/service/launches.h"

#include <stdlib.h>
#include <sys/wait.h>

#include "reduction_server/base/clock.h"

struct smd_started_runner *smd_launches_find(struct smd_launches *launches, int64_t id)
{
	for (size_t i = 0; i < launches->count; i++) {
		if (launches->list[i].id == id) {
			return &launches->list[i];
		}
	}
	return NULL;
}

struct smd_started_runner *smd_launches_add(struct smd_launches *launches, int64_t id)
{
	struct smd_started_runner *launch = smd_launches_find(launches, id);
	void *list;

	if (launch) {
		free(launch->devices);
		launch->devices = NULL;
		return launch;
	}
	list = realloc(launches->list, (launches->count + 1) * sizeof(*launches->list));
	if (!list) {
		return NULL;
	}
	launches->list = list;
	launch = &launches->list[launches->count++];
	*launch = (struct smd_started_runner){.id = id};
	return launch;
}

void smd_launches_keep_wanted(struct smd_launches *launches)
{
	size_t kept = 0;

	for (size_t i = 0; i < launches->count; i++) {
		if (launches->list[i].is_wanted) {
			launches->list[i].is_wanted = 0;
			launches->list[kept++] = launches->list[i];
		} else {
			free(launches->list[i].devices);
		}
	}
	launches->count = kept;
}

int smd_launches_reap(struct smd_launches *launches)
{
	int have_ended = 0;
	int status;

	for (size_t i = 0; i < launches->count; i++) {
		struct smd_started_runner *launch = &launches->list[i];

		if (launch->pid && waitpid(launch->pid, &status, WNOHANG) == launch->pid) {
			launch->pid = 0;
			launch->ended_ns = smd_clock_ns();
			have_ended = 1;
		}
	}
	/* Those of jobs that have begun are not remembered. */
	while (waitpid(-1, &status, WNOHANG) > 0) {
	}
	return have_ended;
}

void smd_launches_clear(struct smd_launches *launches)
{
	for (size_t i = 0; i < launches->count; i++) {
		free(launches->list[i].devices);
	}
	free(launches->list);
	*launches = (struct smd_launches){.count = 0};
}
