/*
 * The jobs of a service, as commands use them instead of those of this machine's store: where a
 * command line or a variable names the service.
 */
#ifndef SMD_CLI_SERVICE_JOBS_H
#define SMD_CLI_SERVICE_JOBS_H

#include <jansson.h>

#include "orchestrator/store/store.h"

#define SMD_SERVICE_VARIABLE "SUMMAND_SERVICE"

struct smd_service_jobs;

/* Where an option's text goes by which a service is chosen: "service", "project" or "region". */
const char **smd_service_choice(const char *option);

/* Whether a service is named at all. */
int smd_service_is_chosen(void);

/* Nothing is asked yet. 0, or -errno with a text. */
int smd_service_jobs_open(struct smd_service_jobs **out, struct smd_error *error);
void smd_service_jobs_close(struct smd_service_jobs *service);

/* Its address, for texts. */
const char *smd_service_jobs_url(const struct smd_service_jobs *service);

/* Asks about what has that resource name; `rest` is put behind it: ":cancel", or a query. The answer,
 * of which the caller owns a reference; NULL: *ret is -errno with a text: -ENOENT it is not there,
 * -EAGAIN there is no room now, -EREMOTEIO it is refused, another one: there is no answer. */
json_t *smd_service_jobs_ask(struct smd_service_jobs *service, const char *method,
	const char *name, const char *rest, const json_t *body, int *ret, struct smd_error *error);

/* As smd_store_each(): all that the project has, the newest first. Each job has its resource_name. */
int smd_service_jobs_each(struct smd_service_jobs *service, enum smd_stored_kind kind,
	smd_stored_job_fn *take, void *arg, struct smd_error *error);

/* As smd_store_find(), but the job that is meant is the last that was called back with. */
int smd_service_jobs_find(struct smd_service_jobs *service, enum smd_stored_kind kind,
	const char *word, smd_stored_job_fn *take, void *arg, struct smd_error *error);

/* One job, by its resource name. -ENOENT with a text: it is not there. */
int smd_service_jobs_get(struct smd_service_jobs *service, enum smd_stored_kind kind,
	const char *name, smd_stored_job_fn *take, void *arg, struct smd_error *error);

/* The same as the API has it. The caller owns a reference. NULL: the reason is in the error. */
json_t *smd_service_jobs_resource(
	struct smd_service_jobs *service, const char *name, struct smd_error *error);

/* A new job. The caller owns a reference to its resource. NULL: the reason is in the error. */
json_t *smd_service_jobs_create(struct smd_service_jobs *service, enum smd_stored_kind kind,
	const json_t *job, struct smd_error *error);

/* 0, or -errno with a text. */
int smd_service_jobs_cancel(
	struct smd_service_jobs *service, const char *name, struct smd_error *error);
int smd_service_jobs_delete(
	struct smd_service_jobs *service, const char *name, struct smd_error *error);

/* How far a log has been read. */
struct smd_service_log_place {
	char time[64]; /* "": nothing */
	char insert_id[64];
};

/* A line of a log; its texts are valid until the next one. */
struct smd_service_line {
	const char *severity;
	const char *time;
	const char *task;
	const char *text;
};

typedef void smd_service_line_fn(void *arg, const struct smd_service_line *line);

/* Calls back with the lines behind the place, which is then behind them. How many there were, no
 * more than a page has; -errno with a text. */
int smd_service_jobs_read_log(struct smd_service_jobs *service, const struct smd_stored_job *job,
	struct smd_service_log_place *place, smd_service_line_fn *take, void *arg,
	struct smd_error *error);

#endif
