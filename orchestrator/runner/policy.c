/* Decides about success and restarts. */
#include "orchestrator/runner/policy.h"

#include <errno.h>
#include <signal.h>

#include "reduction_server/base/clock.h"

/* Exit codes of commands that a signal ended, or that could not be executed, as shells give them. */
#define RETRYABLE_FROM    128
#define CODE_NOT_EXECUTED 126
#define CODE_NOT_FOUND    127

/* The replicas that train: their success is the job's. */
static int trains(const struct smd_replica *replica)
{
	return replica->role == SMD_ROLE_CHIEF || replica->role == SMD_ROLE_WORKER;
}

/* Whether all processes of a replica have succeeded; `first` is the first of them. */
static int has_succeeded(const struct smd_replica *first)
{
	for (int i = 0; i < first->processes; i++) {
		if (first[i].state != SMD_REPLICA_SUCCEEDED) {
			return 0;
		}
	}
	return 1;
}

int smd_policy_is_success(
	const struct smd_job *job, const struct smd_replica *replicas, size_t count)
{
	int any = 0;
	int all = 1;
	int chief = 0;

	for (size_t i = 0; i < count; i += (size_t)replicas[i].processes) {
		if (!trains(&replicas[i])) {
			continue;
		}
		any |= has_succeeded(&replicas[i]);
		all &= has_succeeded(&replicas[i]);
		chief |= has_succeeded(&replicas[i]) && replicas[i].role == SMD_ROLE_CHIEF;
	}
	switch ((enum smd_success_policy)job->success_policy) {
	case SMD_SUCCESS_ALL_WORKERS:
		return all;
	case SMD_SUCCESS_ANY:
		return any;
	case SMD_SUCCESS_CHIEF:
		break;
	}
	return chief;
}

/* The machine's fault, not the program's: the agent is gone, or no process could be made. */
static int is_internal(const struct smd_exit *end)
{
	return end->is_lost || (end->kind == SMD_EXIT_ERRNO &&
				       (end->value == EAGAIN || end->value == ENOMEM ||
					       end->value == ENFILE || end->value == EMFILE));
}

/* Killed from outside, as on a machine that is preempted. */
static int was_taken(const struct smd_exit *end)
{
	return end->kind == SMD_EXIT_SIGNAL && (end->value == SIGKILL || end->value == SIGTERM);
}

/* A shell gives its command's end as its own. */
int smd_policy_may_be_taken(const struct smd_exit *end)
{
	return was_taken(end) ||
	       (end->kind == SMD_EXIT_CODE && (end->value == RETRYABLE_FROM + SIGKILL ||
						      end->value == RETRYABLE_FROM + SIGTERM));
}

int smd_policy_is_taken(const struct smd_exit *end, uint64_t ended_ns, uint64_t word_ns)
{
	return ended_ns >= word_ns ||
	       (smd_policy_may_be_taken(end) &&
		       word_ns - ended_ns < SMD_POLICY_TELL_S * SMD_SECOND_NS);
}

static int code_retries(const struct smd_job *job, const struct smd_exit *end)
{
	if (end->kind == SMD_EXIT_CODE) {
		return end->value >= RETRYABLE_FROM ||
		       smd_exit_codes_contain(&job->retryable, end->value);
	}
	return end->kind == SMD_EXIT_SIGNAL;
}

/* As a shell gives it. */
static int code_of(const struct smd_exit *end)
{
	if (is_internal(end)) {
		return SMD_RESTART_CODE_LOST;
	}
	switch (end->kind) {
	case SMD_EXIT_CODE:
		return end->value;
	case SMD_EXIT_SIGNAL:
		return RETRYABLE_FROM + end->value;
	case SMD_EXIT_ERRNO:
		break;
	}
	return end->value == ENOENT ? CODE_NOT_FOUND : CODE_NOT_EXECUTED;
}

size_t smd_policy_budget(const struct smd_job *job, const struct smd_exit *end)
{
	int code = code_of(end);
	size_t i = 0;

	while (i < job->budgets.count && job->budgets.list[i].code != code) {
		i++;
	}
	return i;
}

unsigned smd_policy_budget_size(const struct smd_job *job, size_t budget)
{
	return (unsigned)(budget < job->budgets.count ? job->budgets.list[budget].restarts
						      : job->max_restarts);
}

int smd_policy_retries(const struct smd_job *job, const struct smd_exit *end)
{
	if (job->disable_retries) {
		return 0;
	}
	if (is_internal(end) || smd_policy_budget(job, end) < job->budgets.count) {
		return 1;
	}
	switch ((enum smd_restart_policy)job->restart_policy) {
	case SMD_RESTART_ON_FAILURE:
		return 1;
	case SMD_RESTART_EXIT_CODE:
		return code_retries(job, end);
	case SMD_RESTART_NEVER:
		break;
	}
	return job->restart_job_on_worker_restart && was_taken(end);
}

/* Workers lose their communicators with a reduction server, and the processes of a replica and the
 * replicas of an mpirun depend on each other, so these are never restarted alone. */
enum smd_restart_scope smd_policy_scope(const struct smd_job *job, enum smd_role role)
{
	if (job->restart_job_on_worker_restart || job->processes_per_replica > 1 ||
		job->launch == SMD_LAUNCH_MPIRUN || role == SMD_ROLE_REDUCTION_SERVER) {
		return SMD_RESTART_JOB;
	}
	return (enum smd_restart_scope)job->restart_scope;
}

int smd_policy_restarts(const struct smd_job *job, enum smd_restart_scope scope, enum smd_role role,
	const struct smd_exit *end, const struct smd_restart_counts *counts)
{
	size_t budget = smd_policy_budget(job, end);

	return smd_policy_scope(job, role) == scope && smd_policy_retries(job, end) &&
	       counts->drawn[budget] < smd_policy_budget_size(job, budget);
}

unsigned smd_policy_backoff_s(const struct smd_job *job, unsigned restarts)
{
	unsigned wait = (unsigned)job->restart_backoff_s;

	while (restarts-- > 0 && wait > 0 && wait < SMD_POLICY_BACKOFF_MAX_S) {
		wait *= 2;
		if (wait > SMD_POLICY_BACKOFF_MAX_S) {
			wait = SMD_POLICY_BACKOFF_MAX_S;
		}
	}
	return wait;
}
