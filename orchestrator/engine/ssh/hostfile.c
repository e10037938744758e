/* Reads a file of hosts. */
#include "orchestrator/engine/ssh/hostfile.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/printable.h"

#define SPACE      " \t\r\n"
#define FIRST_SIZE 4096
#define SHOWN      64 /* characters of a wrong word in a message */

void smd_hostfile_close(struct smd_hostfile *hostfile)
{
	if (!hostfile) {
		return;
	}
	for (size_t i = 0; i < hostfile->count; i++) {
		free(hostfile->lines[i].host);
	}
	free(hostfile->lines);
	free(hostfile);
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

/* 1: the line has no host. -EINVAL: *wrong is a word that must not be there. */
static int parse_line(char *text, struct smd_hostfile_line *out, char **wrong)
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
	*wrong = host;
	if (!is_host(host)) {
		return -EINVAL;
	}
	while ((word = strtok_r(NULL, SPACE, &rest))) {
		*wrong = word;
		if (take_slots(word, &out->slots)) {
			return -EINVAL;
		}
	}
	out->host = strdup(host);
	return out->host ? 0 : -ENOMEM;
}

static int append(struct smd_hostfile *hostfile, const struct smd_hostfile_line *line)
{
	struct smd_hostfile_line *more =
		realloc(hostfile->lines, (hostfile->count + 1) * sizeof(*more));

	if (!more) {
		free(line->host);
		return -ENOMEM;
	}
	hostfile->lines = more;
	more[hostfile->count++] = *line;
	return 0;
}

static int take_line(
	struct smd_hostfile *hostfile, char *text, unsigned number, struct smd_error *error)
{
	struct smd_hostfile_line line;
	char *wrong = NULL;
	int ret = parse_line(text, &line, &wrong);

	if (ret == -EINVAL) {
		smd_printable(wrong);
		return smd_error_set(error, EINVAL,
			"line %u: must be HOST [slots=N] with N from 1 to %d, got %.*s", number,
			SMD_HOSTFILE_SLOTS_MAX, SHOWN, wrong);
	}
	return ret == 0 ? append(hostfile, &line) : ret == 1 ? 0 : ret;
}

static int compare(const void *a, const void *b)
{
	const struct smd_hostfile_line *const *one = a;
	const struct smd_hostfile_line *const *other = b;
	int order = strcmp((*one)->host, (*other)->host);

	return order ? order : *one < *other ? -1 : 1;
}

static void add_slots(struct smd_hostfile_line *line, int slots)
{
	line->slots += slots < SMD_HOSTFILE_SLOTS_MAX - line->slots
			       ? slots
			       : SMD_HOSTFILE_SLOTS_MAX - line->slots;
}

/* A host that is named again has these slots too, as Open MPI counts them, and still one agent: two
 * would each deal out all of its GPUs. */
static int merge(struct smd_hostfile *hostfile)
{
	struct smd_hostfile_line *lines = hostfile->lines, *first = NULL;
	struct smd_hostfile_line **sorted =
		calloc(hostfile->count + 1, sizeof(struct smd_hostfile_line *));
	size_t kept = 0;

	if (!sorted) {
		return -ENOMEM;
	}
	for (size_t i = 0; i < hostfile->count; i++) {
		sorted[i] = &lines[i];
	}
	qsort(sorted, hostfile->count, sizeof(struct smd_hostfile_line *), compare);
	for (size_t i = 0; i < hostfile->count; i++) {
		if (first && strcmp(first->host, sorted[i]->host) == 0) {
			add_slots(first, sorted[i]->slots);
			free(sorted[i]->host);
			sorted[i]->host = NULL;
		} else {
			first = sorted[i];
		}
	}
	free(sorted);
	for (size_t i = 0; i < hostfile->count; i++) {
		if (lines[i].host) {
			lines[kept++] = lines[i];
		}
	}
	hostfile->count = kept;
	return 0;
}

/* A byte that ends a string would hide what comes after it. */
static int parse(struct smd_hostfile *hostfile, char *text, size_t length, struct smd_error *error)
{
	static const char byte_order_mark[] = "\xEF\xBB\xBF"; /* as editors on Windows write it */
	int has_mark = strncmp(text, byte_order_mark, strlen(byte_order_mark)) == 0;
	char *rest = text + (has_mark ? strlen(byte_order_mark) : 0);
	unsigned number = 0;
	int ret = 0;

	while (!ret && rest) {
		char *line = strsep(&rest, "\n");

		number++;
		if (!rest && line + strlen(line) < text + length) {
			return smd_error_set(
				error, EINVAL, "line %u: must be text, got a NUL byte", number);
		}
		ret = take_line(hostfile, line, number, error);
	}
	if (!ret && hostfile->count == 0) {
		ret = smd_error_set(error, EINVAL, "must name a host, got none");
	}
	return ret ? ret : merge(hostfile);
}

/* To the end of the file, or a byte too far. */
static int read_bytes(FILE *file, char **text, size_t *length)
{
	size_t size = FIRST_SIZE;
	size_t room = size;

	do {
		char *grown = realloc(*text, size + 1);

		if (!grown) {
			return -ENOMEM;
		}
		*text = grown;
		room = size - *length;
		room -= fread(*text + *length, 1, room, file);
		*length = size - room;
		size *= 2;
	} while (room == 0 && *length <= SMD_HOSTFILE_MAX);
	return ferror(file) ? -errno : 0;
}

/* The whole file, with a NUL behind it, which the caller frees. */
static int read_file(const char *path, char **text, size_t *length, struct smd_error *error)
{
	FILE *file = fopen(path, "re");
	int ret = file ? read_bytes(file, text, length) : -errno;

	if (!ret && *length > SMD_HOSTFILE_MAX) {
		ret = smd_error_set(
			error, EFBIG, "must be at most %u bytes, got more", SMD_HOSTFILE_MAX);
	} else if (!ret) {
		(*text)[*length] = '\0';
	}
	if (file) {
		fclose(file);
	}
	return ret;
}

int smd_hostfile_open(struct smd_hostfile **out, const char *path, struct smd_error *error)
{
	struct smd_hostfile *hostfile = calloc(1, sizeof(*hostfile));
	struct smd_error why = {""};
	char *text = NULL;
	size_t length = 0;
	int ret = hostfile ? read_file(path, &text, &length, &why) : -ENOMEM;

	ret = ret ? ret : parse(hostfile, text, length, &why);
	free(text);
	if (ret) {
		smd_hostfile_close(hostfile);
		return smd_error_set(error, -ret, "--hostfile=%s: %s", path,
			why.text[0] ? why.text : strerror(-ret));
	}
	*out = hostfile;
	return 0;
}
