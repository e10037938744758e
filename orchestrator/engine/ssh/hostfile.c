/* Reads a file of hosts. */
#include "orchestrator/engine/ssh/hostfile.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPACE " \t\r\n"

void smd_hostfile_free(struct smd_hostfile_line *lines, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		free(lines[i].host);
	}
	free(lines);
}

/* A host's name must be no option of the command that it stands behind. */
static int is_host(const char *word)
{
	return word[0] != '-' && !strpbrk(word, "\"'`$;&|<>()\\*?");
}

static int take_slots(const char *word, int *slots)
{
	static const char *const names[] = {"slots=", "max_slots=", "max-slots="};
	char *end;
	long value;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		size_t length = strlen(names[i]);

		if (strncmp(word, names[i], length) == 0) {
			value = strtol(word + length, &end, 10);
			if (end == word + length || *end || value < 1 ||
				value > SMD_HOSTFILE_SLOTS_MAX) {
				return -EINVAL;
			}
			*slots = i == 0 ? (int)value : *slots;
			return 0;
		}
	}
	return -EINVAL;
}

/* 1: the line has no host. */
static int parse_line(char *text, struct smd_hostfile_line *out)
{
	char *rest = NULL;
	char *word;
	char *host;

	text[strcspn(text, "#")] = '\0';
	host = strtok_r(text, SPACE, &rest);
	if (!host) {
		return 1;
	}
	*out = (struct smd_hostfile_line){.slots = 1};
	if (!is_host(host)) {
		return -EINVAL;
	}
	while ((word = strtok_r(NULL, SPACE, &rest))) {
		if (take_slots(word, &out->slots)) {
			return -EINVAL;
		}
	}
	out->host = strdup(host);
	return out->host ? 0 : -ENOMEM;
}

static int append(struct smd_hostfile_line **lines, size_t *count,
	const struct smd_hostfile_line *line)
{
	struct smd_hostfile_line *more = realloc(*lines, (*count + 1) * sizeof(*more));

	if (!more) {
		free(line->host);
		return -ENOMEM;
	}
	*lines = more;
	more[(*count)++] = *line;
	return 0;
}

int smd_hostfile_read(const char *path, struct smd_hostfile_line **out, size_t *count,
	struct smd_error *error)
{
	FILE *file = fopen(path, "re");
	char *text = NULL;
	size_t size = 0;
	int ret = file ? 0 : -errno;

	*out = NULL;
	*count = 0;
	if (ret) {
		return smd_error_set(error, -ret, "--hostfile=%s: %s", path, strerror(-ret));
	}
	for (unsigned number = 1; !ret && getline(&text, &size, file) >= 0; number++) {
		struct smd_hostfile_line line;

		ret = parse_line(text, &line);
		if (ret == 0) {
			ret = append(out, count, &line);
		} else if (ret == 1) {
			ret = 0;
		}
		if (ret == -EINVAL) {
			smd_error_set(error, EINVAL,
				"--hostfile=%s: line %u: must be HOST [slots=N]", path, number);
		}
	}
	free(text);
	fclose(file);
	if (!ret && *count == 0) {
		ret = smd_error_set(error, EINVAL, "--hostfile=%s: must name a host", path);
	}
	if (ret) {
		smd_hostfile_free(*out, *count);
		*out = NULL;
		*count = 0;
		return smd_error_set(error, -ret, "--hostfile=%s: %s", path, strerror(-ret));
	}
	return 0;
}
