/* `summand hp-tuning-jobs`: chooses the verb. What a custom job has too, its file does for both. */
#include "orchestrator/cli/hp_tuning_jobs.h"

#include "orchestrator/cli/verbs.h"

int smd_hp_tuning_jobs_run(int argc, char **argv)
{
	static const struct smd_verb list[] = {
		SMD_VERB_GROUP("Check a job"),
		{"validate", "checks a spec, and lists everything that is wrong with it",
			smd_hp_tuning_jobs_validate},
		{"plan", "shows what a trial needs: pools, machines, bandwidth",
			smd_hp_tuning_jobs_plan},
		SMD_VERB_GROUP("Run a job"),
		{"local-run", "runs all trials on this machine, in the foreground",
			smd_hp_tuning_jobs_local_run},
		{"create", "runs all trials on this machine, and returns at once",
			smd_hp_tuning_jobs_create},
		SMD_VERB_GROUP("Follow jobs"),
		{"list", "lists your tuning jobs", smd_hp_tuning_jobs_list},
		{"describe", "prints a tuning job, its state and its trials",
			smd_hp_tuning_jobs_describe},
		{"stream-logs", "prints how the trials go on, until the job ends",
			smd_hp_tuning_jobs_stream_logs},
		{"wait", "waits until a tuning job has ended", smd_hp_tuning_jobs_wait},
		{"exec", "runs a command, or a shell, in a replica of a trial that runs",
			smd_hp_tuning_jobs_exec},
		{"cancel", "asks a tuning job to end", smd_hp_tuning_jobs_cancel},
		{"delete", "forgets a tuning job that has ended, and its logs",
			smd_hp_tuning_jobs_delete},
	};
	static const struct smd_absent_verb absent[] = {
		{"env", "`summand custom-jobs env SPEC` prints what the first trial gets"},
		{NULL, NULL},
	};
	static const struct smd_verbs verbs = {
		.prefix = "summand hp-tuning-jobs",
		.summary = "Hyperparameter tuning: jobs that are run with many parameters, to find "
			   "the best.",
		.list = list,
		.count = sizeof(list) / sizeof(list[0]),
		.absent = absent,
	};

	return smd_verbs_run(&verbs, argc, argv);
}
