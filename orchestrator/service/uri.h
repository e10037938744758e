/*
 * The target of a request, taken apart: its path in segments, its query in parameters, each decoded
 * by itself, so that what is encoded in one never becomes a part of the path.
 */
#ifndef SMD_SERVICE_URI_H
#define SMD_SERVICE_URI_H

#include <stddef.h>

#define SMD_URI_SEGMENTS_MAX   12
#define SMD_URI_PARAMETERS_MAX 24

struct smd_uri_parameter {
	const char *name;
	const char *value;
};

struct smd_uri {
	char *text; /* holds all of them */
	const char *segments[SMD_URI_SEGMENTS_MAX];
	size_t nsegments;
	const char *verb; /* of "ID:cancel", cut off the last segment; NULL: none */
	struct smd_uri_parameter parameters[SMD_URI_PARAMETERS_MAX];
	size_t nparameters;
};

/* 0; -EINVAL: it is no path of printable UTF-8, or has an empty segment, or "." or ".."; -ENOMEM.
 */
int smd_uri_parse(const char *target, struct smd_uri *out);
void smd_uri_clear(struct smd_uri *uri);

/* The last value of a parameter; NULL: it is not given. */
const char *smd_uri_parameter(const struct smd_uri *uri, const char *name);

#endif
