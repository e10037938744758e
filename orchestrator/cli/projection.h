/* The part of a resource that is below some keys, in its own shape. */
#ifndef SMD_CLI_PROJECTION_H
#define SMD_CLI_PROJECTION_H

#include "orchestrator/cli/format_key.h"

/* As gcloud's json(KEY,...): an element that is not chosen is null, one behind the last chosen is
 * left out; null if there is nothing below the keys. A list of resources is a list of their parts.
 * NULL: out of memory. */
json_t *smd_project(const json_t *resource, const struct smd_format_keys *keys);

#endif
