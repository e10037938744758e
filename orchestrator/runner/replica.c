/* A replica's state machine, results and lifetime. */
#include "orchestrator/runner/replica.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/log.h"

static const struct {
	const char *name;
	unsigned predecessors;
	const char *meaning;
} states[] = {
#define P(name)                        (1u << SMD_REPLICA_##name)
#define X(name, predecessors, meaning) [SMD_REPLICA_##name] = {#name, predecessors, meaning},
	SMD_REPLICA_STATES(X)
#undef X
#undef P
};

/* A next state plus one, so that an empty cell means: nothing changes. */
#define TO(name) (SMD_REPLICA_##name + 1)

static const unsigned char table[SMD_REPLICA_STATE_COUNT][SMD_REPLICA_EVENT_COUNT] = {
	[SMD_REPLICA_PENDING] =
		{
			[SMD_REPLICA_EVENT_LAUNCHED] = TO(STARTING),
			[SMD_REPLICA_EVENT_EXIT_BAD] = TO(FAILED),
		},
	[SMD_REPLICA_STARTING] =
		{
			[SMD_REPLICA_EVENT_READY] = TO(RUNNING),
			[SMD_REPLICA_EVENT_STOP] = TO(STOPPING),
			[SMD_REPLICA_EVENT_EXIT_OK] = TO(FAILED),
			[SMD_REPLICA_EVENT_EXIT_BAD] = TO(FAILED),
		},
	[SMD_REPLICA_RUNNING] =
		{
			[SMD_REPLICA_EVENT_STOP] = TO(STOPPING),
			[SMD_REPLICA_EVENT_EXIT_OK] = TO(SUCCEEDED),
			[SMD_REPLICA_EVENT_EXIT_BAD] = TO(FAILED),
		},
	[SMD_REPLICA_STOPPING] =
		{
			[SMD_REPLICA_EVENT_EXIT_OK] = TO(STOPPED),
			[SMD_REPLICA_EVENT_EXIT_BAD] = TO(STOPPED),
		},
	[SMD_REPLICA_SUCCEEDED] =
		{
			[SMD_REPLICA_EVENT_RETRY] = TO(PENDING),
		},
	[SMD_REPLICA_FAILED] =
		{
			[SMD_REPLICA_EVENT_RETRY] = TO(PENDING),
		},
	[SMD_REPLICA_STOPPED] =
		{
			[SMD_REPLICA_EVENT_RETRY] = TO(PENDING),
		},
};

int smd_replica_init(struct smd_replica *replica, const struct smd_job_pool *pool, int index,
	int process, int processes)
{
	size_t length;

	*replica = (struct smd_replica){.pool = pool->index,
		.index = index,
		.process = process,
		.processes = processes,
		.role = pool->role};
	smd_replica_name(replica->name, pool->index, index);
	if (processes > 1) {
		length = strlen(replica->name);
		snprintf(replica->name + length, sizeof(replica->name) - length, ".%d", process);
	}
	replica->results = json_object();
	return replica->results ? 0 : -ENOMEM;
}

void smd_replica_clear(struct smd_replica *replica)
{
	json_decref(replica->results);
	json_decref(replica->figures);
	smd_tail_clear(&replica->tail);
	free(replica->program);
	free(replica->loss);
}

void smd_replica_retry(struct smd_replica *replica)
{
	smd_replica_apply(replica, SMD_REPLICA_EVENT_RETRY);
	json_object_clear(replica->results);
	json_object_clear(replica->figures);
	smd_replica_progress_clear(&replica->progress);
	smd_tail_clear(&replica->tail);
	free(replica->program);
	replica->program = NULL;
	replica->started_ns = 0;
	replica->ended_ns = 0;
	replica->restart_ns = 0;
	replica->end = (struct smd_exit){0};
	replica->status[0] = '\0';
	replica->status_is_new = 0;
}

const char *smd_replica_state_name(enum smd_replica_state state)
{
	return states[state].name;
}

const char *smd_replica_state_meaning(enum smd_replica_state state)
{
	return states[state].meaning;
}

int smd_replica_may_follow(enum smd_replica_state state, enum smd_replica_state next)
{
	return (states[next].predecessors & 1u << state) != 0;
}

enum smd_replica_state smd_replica_after(enum smd_replica_state state, enum smd_replica_event event)
{
	unsigned next = table[state][event];

	return next ? (enum smd_replica_state)(next - 1) : state;
}

void smd_replica_set_state(struct smd_replica *replica, enum smd_replica_state next)
{
	assert(smd_replica_may_follow(replica->state, next));
	smd_log(SMD_LOG_DEBUG, "runner", "%s: %s -> %s", replica->name, states[replica->state].name,
		states[next].name);
	replica->state = next;
}

int smd_replica_apply(struct smd_replica *replica, enum smd_replica_event event)
{
	enum smd_replica_state next = smd_replica_after(replica->state, event);

	if (next == replica->state) {
		return 0;
	}
	smd_replica_set_state(replica, next);
	return 1;
}

int smd_replica_is_alive(const struct smd_replica *replica)
{
	return replica->state == SMD_REPLICA_STARTING || replica->state == SMD_REPLICA_RUNNING ||
	       replica->state == SMD_REPLICA_STOPPING;
}

int smd_replica_is_server(const struct smd_replica *replica)
{
	return replica->role == SMD_ROLE_REDUCTION_SERVER ||
	       replica->role == SMD_ROLE_PARAMETER_SERVER;
}

static int set_value(json_t *values, const char *key, const char *value)
{
	if (json_object_size(values) >= SMD_REPLICA_RESULTS_MAX && !json_object_get(values, key)) {
		return -ENOSPC;
	}
	/* jansson refuses a value that is not UTF-8, which JSON cannot hold. */
	return json_object_set_new(values, key, json_string(value)) ? -EINVAL : 0;
}

int smd_replica_set_result(struct smd_replica *replica, const char *key, const char *value)
{
	return set_value(replica->results, key, value);
}

int smd_replica_set_figure(struct smd_replica *replica, const char *key, const char *value)
{
	replica->figures = replica->figures ? replica->figures : json_object();
	return set_value(replica->figures, key, value);
}

const char *smd_replica_result(const struct smd_replica *replica, const char *key)
{
	return json_string_value(json_object_get(replica->results, key));
}

double smd_replica_elapsed(const struct smd_replica *replica)
{
	uint64_t end = replica->ended_ns ? replica->ended_ns : smd_clock_ns();

	return replica->started_ns ? (double)(end - replica->started_ns) * 1e-9 : 0;
}

int smd_replica_names_width(const struct smd_replica *replicas, size_t count)
{
	int width = 0;

	for (size_t i = 0; i < count; i++) {
		int length = (int)strlen(replicas[i].name);

		width = length > width ? length : width;
	}
	return width;
}
