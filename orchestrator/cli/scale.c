/* `summand custom-jobs scale`: asks a job's runner for more or fewer reduction servers. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "orchestrator/cli/custom_jobs.h"
#include "orchestrator/cli/stored_jobs.h"
#include "orchestrator/cli/verbs.h"
#include "orchestrator/store/last_record.h"
#include "orchestrator/store/scale_request.h"
#include "reduction_server/base/clock.h"
#include "reduction_server/base/printable.h"

#define SERVER_POOL 2
#define ANSWER_S    10
#define LOOK_NS     50000000

/* What the runner says to this request; NULL: it has not said anything yet. */
static json_t *read_answer(const char *directory, const char *name, const char *id)
{
	json_t *servers = smd_last_record_servers(directory, name);
	const char *of = json_string_value(json_object_get(servers, "request"));

	if (of && strcmp(of, id) == 0) {
		return servers;
	}
	json_decref(servers);
	return NULL;
}

static json_t *wait_for_answer(const char *directory, const char *name, const char *id)
{
	const struct timespec pause = {.tv_nsec = LOOK_NS};
	uint64_t deadline = smd_clock_ns() + ANSWER_S * (uint64_t)SMD_SECOND_NS;
	json_t *answer;

	while (!(answer = read_answer(directory, name, id)) && smd_clock_ns() < deadline) {
		nanosleep(&pause, NULL);
	}
	return answer;
}

/* Without reducers on workers' hosts, which nobody asks for by number. */
static int count(const json_t *servers)
{
	return (int)(json_integer_value(json_object_get(servers, "replicaCount")) -
		     json_integer_value(json_object_get(servers, "reducerCount")));
}

static int tell(const char *name, const json_t *answer, int before)
{
	int after = count(answer);
	const char *refused = json_string_value(json_object_get(answer, "refused"));

	if (refused) {
		smd_print_line(stderr, "summand: %s: %d reduction server%s: %s\n", name, after,
			after == 1 ? " stays" : "s stay", refused);
		return SMD_EXIT_FAILED;
	}
	fprintf(stderr, "CustomJob [%s] has %d reduction server%s now.\n", name, after,
		after == 1 ? "" : "s");
	if (after > before) {
		fprintf(stderr, "Ranks that run take in those that all of them reach, within "
				"seconds; the job's next attempt uses all.\n");
	} else if (after < before) {
		fprintf(stderr, "Ranks that run go on with the others. Processes that begin from "
				"now on wait for those taken away, 3 s if ranks that began before "
				"are at work, else 30 s, and begin without them. The job's next "
				"attempt does not wait.\n");
	}
	return SMD_EXIT_OK;
}

static int scale(const struct smd_stored_job *job, int replicas)
{
	struct smd_error error = {""};
	char name[SMD_STORE_NAME_SIZE];
	char id[SMD_SCALE_ID_SIZE];
	json_t *servers, *answer;
	int before, exit_code;

	smd_store_name(name, job->kind, job->id);
	if (job->end_time) {
		smd_print_line(stderr, "summand: %s: must not have ended, and has\n", name);
		return SMD_EXIT_FAILED;
	}
	servers = smd_last_record_servers(job->directory, name);
	if (!servers) {
		smd_print_line(stderr, "summand: %s: must have reduction servers of its own in "
				       "worker pool 2, and has none\n",
			name);
		return SMD_EXIT_FAILED;
	}
	before = count(servers);
	json_decref(servers);
	if (smd_scale_request_send(job->directory, replicas, id, &error)) {
		smd_print_line(stderr, "summand: %s\n", error.text);
		return SMD_EXIT_FAILED;
	}
	answer = wait_for_answer(job->directory, name, id);
	if (!answer) {
		smd_scale_request_withdraw(job->directory);
		smd_print_line(stderr, "summand: %s: its runner must answer within %d s, and does "
				       "not\n",
			name, ANSWER_S);
		return SMD_EXIT_FAILED;
	}
	exit_code = tell(name, answer, before);
	json_decref(answer);
	return exit_code;
}

static int check(int pool, int replicas)
{
	if (pool != SERVER_POOL) {
		smd_print_line(stderr, "summand: --pool: must be %d, the reduction servers: no other "
				       "replicas come and go while a job runs\n",
			SERVER_POOL);
		return SMD_EXIT_USAGE;
	}
	if (replicas < 0) {
		smd_print_line(stderr, "summand: --replicas: must be given, a whole number from 0\n");
		return SMD_EXIT_USAGE;
	}
	return SMD_EXIT_OK;
}

int smd_custom_jobs_scale(int argc, char **argv)
{
	int pool = SERVER_POOL;
	int replicas = -1;
	const struct smd_option options[] = {
		SMD_OPTION_GROUP("Servers"),
		{"pool", "2", "the worker pool to change: that of reduction servers",
			smd_option_set_int, &pool},
		{"replicas", "N", "how many replicas it is to have", smd_option_set_int, &replicas},
		SMD_GLOBAL_OPTIONS,
	};
	const struct smd_command command = {
		.synopsis = "summand custom-jobs scale JOB --pool=2 --replicas=N [OPTION...]",
		.summary = "Changes the number of a job's reduction servers while it runs.",
		.options = options,
		.noptions = sizeof(options) / sizeof(options[0]),
		.epilog = SMD_JOB_OPERAND(SMD_STORED_CUSTOM_JOB),
		.exits = SMD_EXITS,
	};
	struct smd_stored_jobs jobs;
	struct smd_job_copy job;
	int exit_code;

	if (!smd_stored_jobs_begin(
		    &jobs, SMD_STORED_CUSTOM_JOB, &command, argc, argv, &job, &exit_code)) {
		exit_code = smd_stored_jobs_are_here(&jobs) ? check(pool, replicas) : SMD_EXIT_USAGE;
		exit_code = exit_code ? exit_code : scale(&job.job, replicas);
		smd_stored_jobs_close(&jobs);
		smd_job_copy_free(&job);
	}
	return exit_code;
}
