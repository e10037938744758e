/*
 * `summand hp-tuning-jobs ...`: one function per verb, each an smd_verb's run.
 */
#ifndef SMD_CLI_HP_TUNING_JOBS_H
#define SMD_CLI_HP_TUNING_JOBS_H

/* Which SPEC its verbs take. */
#define SMD_TUNING_OPERAND "Here it must be a HyperparameterTuningJob, or a TrainingPipeline of one."

int smd_hp_tuning_jobs_run(int argc, char **argv);

int smd_hp_tuning_jobs_cancel(int argc, char **argv);
int smd_hp_tuning_jobs_create(int argc, char **argv);
int smd_hp_tuning_jobs_delete(int argc, char **argv);
int smd_hp_tuning_jobs_describe(int argc, char **argv);
int smd_hp_tuning_jobs_exec(int argc, char **argv);
int smd_hp_tuning_jobs_list(int argc, char **argv);
int smd_hp_tuning_jobs_local_run(int argc, char **argv);
int smd_hp_tuning_jobs_plan(int argc, char **argv);
int smd_hp_tuning_jobs_stream_logs(int argc, char **argv);
int smd_hp_tuning_jobs_validate(int argc, char **argv);
int smd_hp_tuning_jobs_wait(int argc, char **argv);

#endif
