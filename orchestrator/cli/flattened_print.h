/* A line "key: value" for each scalar of a resource: the flattened format. */
#ifndef SMD_CLI_FLATTENED_PRINT_H
#define SMD_CLI_FLATTENED_PRINT_H

#include <stdio.h>

#include "orchestrator/cli/format_attributes.h"
#include "orchestrator/cli/format_key.h"

/* A key of `keys` is printed by its label, as gcloud does. 0 or -ENOMEM. */
int smd_flattened_print(const json_t *json, const struct smd_format_keys *keys,
	const struct smd_format_attributes *attributes, FILE *out);

#endif
