/*
 * What requests are answered from: inside the room.
 */
#ifndef SMD_SERVICE_DESK_H
#define SMD_SERVICE_DESK_H

#include "orchestrator/service/intake.h"
#include "orchestrator/service/scheduler.h"
#include "orchestrator/service/service.h"

#define SMD_DESK_REMOVALS_MAX 256

struct smd_batch;
struct smd_terminals;
struct smd_job_copy;
struct smd_stored_deletion;

struct smd_desk;

/* A request for something of a place. */
struct smd_call {
	struct smd_desk *desk;
	struct smd_http_request *request;
	const char *project;
	const char *location;
	enum smd_stored_kind kind;
	int64_t id;      /* of a job */
	int has_numbers; /* enumerations are answered as numbers */
};

struct smd_desk {
	const char *state_dir;
	const char *scheme; /* of the service's addresses: "http" */
	struct smd_store *store;
	struct smd_scheduler *scheduler;
	struct smd_intake_rules rules;
	struct smd_batch *batch;
	struct smd_terminals *terminals;
	struct smd_call removals[SMD_DESK_REMOVALS_MAX]; /* that wait for a runner */
	size_t nremovals;
};

/* Takes each request, with the desk as `arg`. */
smd_http_handler smd_desk_handle;

typedef void smd_call_fn(struct smd_call *call);

smd_call_fn smd_job_create;
smd_call_fn smd_job_get;
smd_call_fn smd_job_list;
smd_call_fn smd_job_cancel;
smd_call_fn smd_job_remove;
smd_call_fn smd_job_replicas;
smd_call_fn smd_job_plan;
smd_call_fn smd_job_artifacts;
smd_call_fn smd_terminal_create;
smd_call_fn smd_terminal_get;
smd_call_fn smd_terminal_write;
smd_call_fn smd_terminal_resize;
smd_call_fn smd_terminal_remove;
smd_call_fn smd_operation_get;
smd_call_fn smd_entries_list;

/* Deletes what waits for the end of a runner, if that is there. Called a few times a second. */
void smd_job_remove_again(struct smd_desk *desk);

/* The call's job, if it is there; else it has been answered, and -ENOENT is returned. The caller
 * frees the copy. */
int smd_call_find(struct smd_call *call, struct smd_job_copy *out);

/* A parameter of the query, by either spelling; NULL: it is not there. */
const char *smd_call_parameter(const struct smd_call *call, const char *name, const char *snake);

/* The fields that the answer is to have; NULL: all. 0; else it has been answered. */
int smd_call_read_mask(struct smd_call *call, const char **mask);

/* Refuses members that are none of these; the list ends with NULL. */
void smd_call_check_fields(struct smd_call *call, const json_t *body, const char *const *names);

/* The body of a method that has nothing but the name, which is in the path. 0; else it has been
 * answered. */
int smd_call_check_name_alone(struct smd_call *call);

/* The operation that has deleted a job, as the API shows it. */
json_t *smd_operation_read(const struct smd_stored_deletion *deletion);

/* Jobs that are to be created wait until all that came together can be written at once. */
int smd_batch_open(struct smd_batch **out);
void smd_batch_close(struct smd_batch *batch);
/* Takes over the intake. 0; else the request has been answered. */
int smd_batch_add(struct smd_batch *batch, struct smd_call *call, struct smd_intake *intake);
/* Writes them and answers. */
void smd_batch_write(struct smd_desk *desk);

#endif
