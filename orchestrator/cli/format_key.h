/*
 * A KEY of a format: a path, jobSpec.workerPoolSpecs[0].replicaCount, with what is done to its
 * value and what heads its column.
 */
#ifndef SMD_CLI_FORMAT_KEY_H
#define SMD_CLI_FORMAT_KEY_H

#include <jansson.h>
#include <stddef.h>

/* What is done to a value before it is printed; gcloud's names. */
enum smd_transform { SMD_TRANSFORM_NONE, SMD_TRANSFORM_BASENAME, SMD_TRANSFORM_DATE };

struct smd_format_key {
	char *path;
	char *label; /* the key's own to free */
	enum smd_transform transform;
};

struct smd_format_keys {
	struct smd_format_key *keys;
	size_t count;
	char *text; /* holds the paths */
};

/* "KEY,KEY)", to the end of the text. -EINVAL: they are no keys. */
int smd_format_keys_parse(struct smd_format_keys *keys, const char *text);
void smd_format_keys_destroy(struct smd_format_keys *keys);

/* A resource name's last part; a time's seconds. In place. */
void smd_transform(char *text, enum smd_transform transform);

/* The text of a value, transformed. With a delimiter, a list's items have it between them, and
 * an object's are key=value; with NULL both are JSON. The caller frees it. NULL: out of memory. */
char *smd_format_key_text(
	const struct smd_format_key *key, const json_t *row, const char *delimiter);

/* An object's names in their order as texts, NULL behind the last. The caller frees the array
 * alone. NULL: out of memory. */
const char **smd_sorted_names(const json_t *object);

#endif
