/* A KEY of --filter, --sort-by and --format, in the spelling of resources. */
#ifndef SMD_CLI_KEY_PATH_H
#define SMD_CLI_KEY_PATH_H

/* Respells gcloud's snake_case, in place: job_spec.worker_pool_specs[0] is
 * jobSpec.workerPoolSpecs[0]. What stands below labels is the user's and stays. */
void smd_key_path_respell(char *path);

#endif
