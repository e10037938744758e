/*
 * A KEY of a format: a path, jobSpec.workerPoolSpecs[0].replicaCount, with what is done to its
 * value and what heads its column.
 */
#ifndef SMD_CLI_FORMAT_KEY_H
#define SMD_CLI_FORMAT_KEY_H

#include <jansson.h>
#include <stddef.h>

#include "orchestrator/cli/transform.h"
#include "reduction_server/base/error.h"

struct smd_format_key {
	char *path;
	char *label; /* the key's own to free */
	struct smd_transform transform;
};

struct smd_format_keys {
	struct smd_format_key *keys;
	size_t count;
	char *text; /* holds the paths */
};

/* "KEY,KEY)", to the end of the text. -EINVAL: they are no keys; with a text where one of them is
 * at fault. */
int smd_format_keys_parse(struct smd_format_keys *keys, const char *text, struct smd_error *error);
void smd_format_keys_destroy(struct smd_format_keys *keys);

/* The text of a value, transformed. With a delimiter, a list's items have it between them, and
 * an object's are key=value; with NULL both are JSON. The caller frees it. NULL: out of memory. */
char *smd_format_key_text(
	const struct smd_format_key *key, const json_t *row, const char *delimiter);

/* An object's names in their order as texts, NULL behind the last. The caller frees the array
 * alone. NULL: out of memory. */
const char **smd_sorted_names(const json_t *object);

#endif
