/* Chooses the jobs that make room. */
#include "orchestrator/service/preemption.h"

#include <errno.h>
#include <stdlib.h>

static int precedes(const void *a, const void *b)
{
	const struct smd_at_work *one = *(struct smd_at_work *const *)a;
	const struct smd_at_work *other = *(struct smd_at_work *const *)b;

	if (one->priority != other->priority) {
		return one->priority < other->priority ? -1 : 1;
	}
	if (one->began_s != other->began_s) {
		return one->began_s > other->began_s ? -1 : 1;
	}
	return one < other ? -1 : one > other;
}

/* What is left when all have gone that have been asked, and those that may be, in order. */
static size_t collect(struct smd_at_work *running, size_t nrunning, const struct smd_in_line *job,
	struct smd_demand *room, struct smd_at_work **candidates)
{
	size_t count = 0;

	for (size_t i = 0; i < nrunning; i++) {
		running[i].is_preempted = 0;
		if (running[i].may_be_preempted && !running[i].is_leaving &&
			running[i].priority < job->priority) {
			candidates[count++] = &running[i];
		}
		if (!running[i].is_leaving) {
			smd_admission_take(room, &running[i].demand, 1);
		}
	}
	qsort(candidates, count, sizeof(struct smd_at_work *), precedes);
	return count;
}

/* The first ones that are enough, and then none of these without which it would be. */
static int choose(struct smd_at_work **candidates, size_t count, struct smd_demand *room,
	const struct smd_in_line *job)
{
	size_t taken = 0;
	int chosen = 0;

	while (taken < count && !smd_admission_fits(room, &job->demand)) {
		smd_admission_take(room, &candidates[taken++]->demand, -1);
	}
	if (!smd_admission_fits(room, &job->demand)) {
		return 0;
	}
	for (size_t i = 0; i < taken; i++) {
		smd_admission_take(room, &candidates[i]->demand, 1);
		if (!smd_admission_fits(room, &job->demand)) {
			smd_admission_take(room, &candidates[i]->demand, -1);
			candidates[i]->is_preempted = 1;
			chosen++;
		}
	}
	return chosen;
}

int smd_preemption_choose(const struct smd_demand *capacity, struct smd_at_work *running,
	size_t nrunning, const struct smd_in_line *job)
{
	struct smd_at_work **candidates = calloc(nrunning + 1, sizeof(struct smd_at_work *));
	struct smd_demand room = *capacity;
	size_t count;
	int chosen;

	if (!candidates) {
		return -ENOMEM;
	}
	count = collect(running, nrunning, job, &room, candidates);
	chosen = choose(candidates, count, &room, job);
	free(candidates);
	return chosen;
}
