/* Chooses the jobs that begin. */
#include "orchestrator/service/admission.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What is free from a time on, until the next one's. */
struct free_from {
	int64_t time_s;
	struct smd_demand room;
};

struct forecast {
	struct free_from *steps; /* by time; the first is now */
	size_t count;
};

int smd_admission_fits(const struct smd_demand *capacity, const struct smd_demand *demand)
{
	return demand->cpus <= capacity->cpus && demand->memory_bytes <= capacity->memory_bytes &&
	       demand->gpus <= capacity->gpus;
}

void smd_admission_take(struct smd_demand *room, const struct smd_demand *demand, int sign)
{
	room->cpus -= sign * demand->cpus;
	room->memory_bytes -= sign * demand->memory_bytes;
	room->gpus -= sign * demand->gpus;
}

/* The step that begins at the time, which is made if there is none; it is not before now. */
static size_t step_at(struct forecast *forecast, int64_t time_s)
{
	size_t i = 0;

	while (i < forecast->count && forecast->steps[i].time_s < time_s) {
		i++;
	}
	if (i == forecast->count || forecast->steps[i].time_s != time_s) {
		memmove(&forecast->steps[i + 1], &forecast->steps[i],
			(forecast->count - i) * sizeof(forecast->steps[0]));
		forecast->steps[i] = forecast->steps[i - 1];
		forecast->steps[i].time_s = time_s;
		forecast->count++;
	}
	return i;
}

/* Whether the demand fits from a step on, for as long as it lasts. */
static int fits_from(const struct forecast *forecast, size_t first, const struct smd_in_line *job)
{
	int64_t end_s = forecast->steps[first].time_s + job->lasts_s;

	for (size_t i = first; i < forecast->count && forecast->steps[i].time_s < end_s; i++) {
		if (!smd_admission_fits(&forecast->steps[i].room, &job->demand)) {
			return 0;
		}
	}
	return 1;
}

/* Gives the job the earliest time. One that never fits takes nothing. */
static void place(struct forecast *forecast, struct smd_in_line *job)
{
	size_t first = 0;
	size_t end;

	while (first < forecast->count && !fits_from(forecast, first, job)) {
		first++;
	}
	if (first == forecast->count) {
		return;
	}
	end = step_at(forecast, forecast->steps[first].time_s + job->lasts_s);
	for (size_t i = first; i < end; i++) {
		smd_admission_take(&forecast->steps[i].room, &job->demand, 1);
	}
	job->begins = first == 0;
}

int smd_admission_choose(const struct smd_demand *capacity, const struct smd_at_work *running,
	size_t nrunning, struct smd_in_line *waiting, size_t nwaiting, int64_t now_s)
{
	size_t looked_at = nwaiting < SMD_ADMISSION_LOOKED_AT ? nwaiting : SMD_ADMISSION_LOOKED_AT;
	struct forecast forecast = {
		.steps = calloc(nrunning + looked_at + 2, sizeof(*forecast.steps))};

	if (!forecast.steps) {
		return -ENOMEM;
	}
	forecast.steps[forecast.count++] = (struct free_from){.time_s = now_s, .room = *capacity};
	for (size_t i = 0; i < nrunning; i++) {
		int64_t ends_s = running[i].ends_s > now_s ? running[i].ends_s : now_s + 1;
		size_t end = step_at(&forecast, ends_s);

		for (size_t step = 0; step < end; step++) {
			smd_admission_take(&forecast.steps[step].room, &running[i].demand, 1);
		}
	}
	for (size_t i = 0; i < nwaiting; i++) {
		waiting[i].begins = 0;
		if (i < looked_at) {
			place(&forecast, &waiting[i]);
		}
	}
	free(forecast.steps);
	return 0;
}
