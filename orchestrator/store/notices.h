/*
 * What is still to be told to a webhook: one row for each change of a job's state, written by the
 * statement that changes it, so none is ever missing.
 */
#ifndef SMD_STORE_NOTICES_H
#define SMD_STORE_NOTICES_H

#include "orchestrator/store/store.h"

/* A change of state, and the job as it was then; texts are valid until the next call. */
struct smd_stored_notice {
	int64_t id;       /* grows */
	unsigned attempts; /* to tell it, before this one */
	const char *time;
	struct smd_stored_job job;
};

/* Changes are noted down from now on, or not any more; what was noted stays. 0, or -errno with a
 * text. */
int smd_notices_want(struct smd_store *store, int is_wanted, struct smd_error *error);

typedef void smd_stored_notice_fn(void *arg, const struct smd_stored_notice *notice);

/* Calls back with the first that is due at `now_s`, of a job of which no earlier one is left. 1:
 * there was one; 0; -errno with a text. */
int smd_notices_next(struct smd_store *store, int64_t now_s, smd_stored_notice_fn *take, void *arg,
	struct smd_error *error);

/* It has been told, or is given up. 0, or -errno with a text. */
int smd_notices_remove(struct smd_store *store, int64_t id, struct smd_error *error);

/* It has been tried in vain, and is due again at `due_s`. 0, or -errno with a text. */
int smd_notices_delay(struct smd_store *store, int64_t id, int64_t due_s, struct smd_error *error);

#endif
