/* Takes the target of a request apart. */
#include "orchestrator/service/uri.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/printable.h"

static int digit_of(char c)
{
	return isdigit((unsigned char)c) ? c - '0' : tolower((unsigned char)c) - 'a' + 10;
}

/* In place. What it stands for must be text that may be shown. */
static int decode(char *text, int plus_is_blank)
{
	size_t length = 0;
	char *out = text;

	for (const char *in = text; *in; in++) {
		if (*in == '%') {
			if (!isxdigit((unsigned char)in[1]) || !isxdigit((unsigned char)in[2])) {
				return -EINVAL;
			}
			*out = (char)(digit_of(in[1]) << 4 | digit_of(in[2]));
			in += 2;
		} else {
			*out = *in == '+' && plus_is_blank ? ' ' : *in;
		}
		if (*out++ == '\0') {
			return -EINVAL;
		}
	}
	*out = '\0';
	return smd_unprintable(text, &length) ? -EINVAL : 0;
}

static int take_segment(struct smd_uri *uri, char *segment)
{
	if (uri->nsegments == SMD_URI_SEGMENTS_MAX || decode(segment, 0) || !*segment ||
		strcmp(segment, ".") == 0 || strcmp(segment, "..") == 0) {
		return -EINVAL;
	}
	uri->segments[uri->nsegments++] = segment;
	return 0;
}

/* The custom verb stands behind the last colon of the path as it was sent. */
static void take_verb(struct smd_uri *uri, char *path)
{
	char *slash = strrchr(path, '/');
	char *colon = strrchr(slash ? slash : path, ':');

	if (colon) {
		*colon = '\0';
		uri->verb = colon + 1;
	}
}

static int take_path(struct smd_uri *uri, char *path)
{
	char *segment;
	int ret = 0;

	if (*path++ != '/') {
		return -EINVAL;
	}
	take_verb(uri, path);
	while (!ret && *path && (segment = strsep(&path, "/"))) {
		ret = take_segment(uri, segment);
		if (!path) {
			return ret;
		}
		ret = ret || *path ? ret : -EINVAL; /* it ends with a slash */
	}
	return ret;
}

static int take_query(struct smd_uri *uri, char *query)
{
	char *part;

	while ((part = strsep(&query, "&"))) {
		struct smd_uri_parameter *parameter = &uri->parameters[uri->nparameters];
		char *value = part;
		char *name;

		if (!*part) {
			continue;
		}
		name = strsep(&value, "=");
		if (uri->nparameters == SMD_URI_PARAMETERS_MAX || decode(name, 1) ||
			(value && decode(value, 1))) {
			return -EINVAL;
		}
		*parameter = (struct smd_uri_parameter){.name = name, .value = value ? value : ""};
		uri->nparameters++;
	}
	return 0;
}

int smd_uri_parse(const char *target, struct smd_uri *out)
{
	char *path;
	char *query;
	int ret;

	*out = (struct smd_uri){.text = strdup(target)};
	if (!out->text) {
		return -ENOMEM;
	}
	query = out->text;
	path = strsep(&query, "?");
	ret = take_path(out, path);
	ret = ret || !query ? ret : take_query(out, query);
	if (ret) {
		smd_uri_clear(out);
	}
	return ret;
}

void smd_uri_clear(struct smd_uri *uri)
{
	free(uri->text);
	*uri = (struct smd_uri){.text = NULL};
}

const char *smd_uri_parameter(const struct smd_uri *uri, const char *name)
{
	for (size_t i = uri->nparameters; i > 0; i--) {
		if (strcmp(uri->parameters[i - 1].name, name) == 0) {
			return uri->parameters[i - 1].value;
		}
	}
	return NULL;
}
