/*
 * `summand custom-jobs ...`: one function per verb, each an smd_verb's run.
 */
#ifndef SMD_CLI_CUSTOM_JOBS_H
#define SMD_CLI_CUSTOM_JOBS_H

int smd_custom_jobs_run(int argc, char **argv);

int smd_custom_jobs_cancel(int argc, char **argv);
int smd_custom_jobs_create(int argc, char **argv);
int smd_custom_jobs_delete(int argc, char **argv);
int smd_custom_jobs_prune(int argc, char **argv);
int smd_custom_jobs_describe(int argc, char **argv);
int smd_custom_jobs_env(int argc, char **argv);
int smd_custom_jobs_export(int argc, char **argv);
int smd_custom_jobs_list(int argc, char **argv);
int smd_custom_jobs_local_run(int argc, char **argv);
int smd_custom_jobs_plan(int argc, char **argv);
int smd_custom_jobs_scale(int argc, char **argv);
int smd_custom_jobs_exec(int argc, char **argv);
int smd_custom_jobs_stream_logs(int argc, char **argv);
int smd_custom_jobs_validate(int argc, char **argv);
int smd_custom_jobs_wait(int argc, char **argv);

#endif
