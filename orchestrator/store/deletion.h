/*
 * Forgets a job that has ended, with its directory if that was made in the state directory.
 */
#ifndef SMD_STORE_DELETION_H
#define SMD_STORE_DELETION_H

#include "orchestrator/store/store.h"
#include "worker/agent/exit_record.h"

#define SMD_DELETION_RESOURCE_SIZE 512

/*
 * The directory goes first: a job whose deletion is interrupted can be deleted again. A runner that
 * still writes its last words is waited for, or -EAGAIN is returned at once, without a text, where
 * nobody waits. 0, or -errno with a text; -EINPROGRESS: it has not ended.
 */
int smd_job_delete(struct smd_store *store, const char *state_dir, const struct smd_stored_job *job,
	int waits, struct smd_error *error);

/* What was deleted, when and by which operation: clients ask for operations afterwards. */
struct smd_stored_deletion {
	int64_t id; /* of the operation */
	char resource[SMD_DELETION_RESOURCE_SIZE];
	char create_time[SMD_TIMESTAMP_SIZE];
};

/* Adds one, with an id and the time; the oldest of very many are forgotten. 0, or -errno with a
 * text. */
int smd_deletion_add(
	struct smd_store *store, struct smd_stored_deletion *deletion, struct smd_error *error);

/* -ENOENT with a text: there is none of that id. */
int smd_deletion_find(struct smd_store *store, int64_t id, struct smd_stored_deletion *out,
	struct smd_error *error);

#endif
