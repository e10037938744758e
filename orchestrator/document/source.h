/*
 * The bytes of a spec, from a file or from standard input.
 */
#ifndef SMD_DOCUMENT_SOURCE_H
#define SMD_DOCUMENT_SOURCE_H

#include <stddef.h>

#include "reduction_server/base/error.h"

#define SMD_SOURCE_LENGTH_MAX ((size_t)64 << 20)

struct smd_source {
	const char *name; /* for messages: the path, or "<stdin>" */
	char *text;       /* with a NUL after its length */
	size_t length;
};

/* Reads the whole file ("-": standard input). The name is borrowed from path. */
int smd_source_read(const char *path, struct smd_source *out, struct smd_error *error);
void smd_source_free(struct smd_source *source);

#endif
