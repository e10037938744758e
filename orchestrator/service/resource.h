/*
 * A job of the store as the API shows it: under the name that its project gives it, with numbers of
 * 64 bits as texts, and with enumerations as the client wants them.
 */
#ifndef SMD_SERVICE_RESOURCE_H
#define SMD_SERVICE_RESOURCE_H

#include "orchestrator/frontend/frontend.h"
#include "orchestrator/service/filter.h"
#include "orchestrator/store/store.h"

#define SMD_PROJECT_MAX        64 /* characters of a project, or of a location */

/* All that the API knows, with their numbers. */
extern const struct smd_filter_name smd_resource_states[];

/* The front end of such a resource's document. */
const struct smd_frontend *smd_resource_frontend(enum smd_stored_kind kind);

/* The caller owns a reference. NULL: the reason is in the error. */
json_t *smd_resource_read(struct smd_store *store, const struct smd_stored_job *job,
	int has_numbers, struct smd_error *error);

#define SMD_RESOURCE_PATH_SIZE 65

/* Whether all of a field mask are fields. 0; -EINVAL with the first that is none, cut to its size;
 * -ENOMEM. */
int smd_resource_check_mask(
	enum smd_stored_kind kind, const char *mask, char wrong[SMD_RESOURCE_PATH_SIZE]);

/* Leaves nothing in the object but what a field mask names: "name,jobSpec.labels"; snake_case is
 * taken too. */
void smd_resource_mask(json_t *resource, const char *mask);

#endif
