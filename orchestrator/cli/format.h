/*
 * --format: how a resource is printed, as gcloud has it: NAME[ATTRIBUTE,...](KEY,...). json, yaml
 * and flattened (a line for each value) print all of it, or what is below the keys; csv, value and
 * get print the values of keys in a line, table prints columns under a heading, none prints
 * nothing.
 *
 * A KEY is a path: jobSpec.workerPoolSpecs[0].replicaCount; [] means every element; names may
 * be in snake_case. KEY:label=TEXT gives a heading; KEY.basename() prints a name's last part,
 * KEY.date() a time's seconds. An array is printed as a line for each element, in YAML as a
 * document for each.
 */
#ifndef SMD_CLI_FORMAT_H
#define SMD_CLI_FORMAT_H

#include <jansson.h>
#include <stdio.h>

#include "reduction_server/base/error.h"

/* On help pages. The last means all of SMD_FORMATS. */
#define SMD_FORMAT_METAVAR "json|yaml|flattened|none|FORMAT(KEY,...)"
#define SMD_FORMATS                                                                                \
	"json, yaml, flattened (also called text) and none, alone or with keys; table(KEY,...), "  \
	"value(KEY,...), get(KEY,...), csv(KEY,...)"

struct smd_format;

/* NULL as text is json. -EINVAL: no such format; the error has what must hold. */
int smd_format_parse(const char *text, struct smd_format **out, struct smd_error *error);
void smd_format_free(struct smd_format *format);

/* Whether it is a table, values or CSV of these keys alone, or prints nothing. */
int smd_format_is_of_texts(const struct smd_format *format, int (*is_text)(const char *key));

/* Whether it prints nothing but values below these keys, of which the last is NULL. */
int smd_format_is_within(const struct smd_format *format, const char *const *keys);

#define SMD_FORMAT_TEXT_SIZE 128

/* The text of a key in a row; the buffer may hold it. NULL: none. */
typedef const char *smd_format_text_fn(
	void *arg, size_t row, const char *key, char buffer[SMD_FORMAT_TEXT_SIZE]);

/* Prints rows that are no JSON, by a format that is of their texts. 0 or -ENOMEM. */
int smd_format_print_texts(const struct smd_format *format, size_t rows, smd_format_text_fn *text,
	void *arg, FILE *out);

/* 0 or -ENOMEM. */
int smd_format_print(const struct smd_format *format, const json_t *json, FILE *out);

/* The value as YAML that reads back as the same value. */
int smd_yaml_print(const json_t *json, FILE *out);

#endif
