/*
 * A flag's value that is a list, "a,b,c", or a dictionary, "k=v,l=w", as gcloud writes them.
 *
 * "^:^a,b:c" is a list of two: what stands between the carets parts the items instead of commas.
 */
#ifndef SMD_FRONTEND_FLAG_ITEMS_H
#define SMD_FRONTEND_FLAG_ITEMS_H

#include <stddef.h>

#include "reduction_server/base/error.h"

struct smd_flag_items {
	char **keys; /* of a dictionary, beside values; NULL for a list */
	char **values;
	size_t count;
	char *text; /* holds them all */
};

/* An empty value has no items. -EINVAL: a dictionary's item has no "=", or its key was there. */
int smd_flag_list(const char *value, struct smd_flag_items *out, struct smd_error *error);
int smd_flag_dictionary(const char *value, struct smd_flag_items *out, struct smd_error *error);

void smd_flag_items_free(struct smd_flag_items *items);

#endif
