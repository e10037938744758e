/*
 * Writes the JSON Schemas of specs/schema from the tables of the front ends.
 *
 * `build/tests/write_schemas specs/schema` renews them; the test corpora.schema_generated holds the
 * files that are there to what this program writes.
 */
#include <stdio.h>
#include <stdlib.h>

#include "orchestrator/frontend/frontend.h"

static int write_schema(const char *directory, const char *schema)
{
	json_t *json = smd_frontend_schema(smd_frontends, schema);
	char *path;
	FILE *file;
	int failed;

	if (!json || asprintf(&path, "%s/%s.schema.json", directory, schema) < 0) {
		json_decref(json);
		return 1;
	}
	file = fopen(path, "we");
	failed = !file || json_dumpf(json, file, JSON_INDENT(2)) || fputc('\n', file) == EOF;
	if (file && fclose(file)) {
		failed = 1;
	}
	if (failed) {
		perror(path);
	}
	free(path);
	json_decref(json);
	return failed;
}

int main(int argc, char **argv)
{
	int failures = 0;

	if (argc != 2) {
		fprintf(stderr, "Usage: %s DIRECTORY\n", argv[0]);
		return 2;
	}
	/* A file that several rows share is written for each. */
	for (const struct smd_frontend *row = smd_frontends; !smd_frontend_is_end(row); row++) {
		failures += row->schema && write_schema(argv[1], row->schema);
	}
	return failures > 0;
}
