/* Cuts functions from keys, and applies them to values. */
#include "orchestrator/cli/transform.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* X(name, kind, whether it must have an argument, whether it may) */
#define TRANSFORMS(X)                                                                              \
	X("basename", BASENAME, 0, 0)                                                              \
	X("date", DATE, 0, 0)                                                                      \
	X("lower", LOWER, 0, 0)                                                                    \
	X("scope", SCOPE, 1, 1)                                                                    \
	X("segment", SEGMENT, 0, 1)                                                                \
	X("upper", UPPER, 0, 0)

static const struct {
	const char *name;
	enum smd_transform_kind kind;
	int needs_argument;
	int takes_argument;
} table[] = {
#define X(name, kind, needs, takes) {name, SMD_TRANSFORM_##kind, needs, takes},
	TRANSFORMS(X)
#undef X
};

static int is_number(const char *text)
{
	char *end;

	strtol(text, &end, 10);
	return *end == '\0';
}

static int is_argument(size_t row, const char *text)
{
	if (!*text) {
		return !table[row].needs_argument;
	}
	return table[row].takes_argument &&
	       (table[row].kind != SMD_TRANSFORM_SEGMENT || is_number(text));
}

int smd_transform_take(struct smd_transform *transform, char *path)
{
	char *open = strchr(path, '(');
	size_t length = strlen(path);
	char *name;

	*transform = (struct smd_transform){SMD_TRANSFORM_NONE, ""};
	if (!open) {
		return 0;
	}
	*open = '\0';
	name = strrchr(path, '.');
	if (!name || path[length - 1] != ')') {
		return -EINVAL;
	}
	path[length - 1] = '\0';
	*name++ = '\0';
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		if (strcmp(table[i].name, name) == 0) {
			*transform = (struct smd_transform){table[i].kind, open + 1};
			return is_argument(i, open + 1) ? 0 : -EINVAL;
		}
	}
	return -EINVAL;
}

static void move_to(char *text, const char *from)
{
	memmove(text, from, strlen(from) + 1);
}

static void take_basename(char *text)
{
	const char *slash = strrchr(text, '/');

	if (slash) {
		move_to(text, slash + 1);
	}
}

/* Of "a/b/c" 0 is a, -1 (the default) is c; what there is not is empty. */
static void take_segment(char *text, const char *argument)
{
	long index = *argument ? strtol(argument, NULL, 10) : -1;
	long count = 1;
	char *part = text;

	for (const char *c = text; *c; c++) {
		count += *c == '/';
	}
	index += index < 0 ? count : 0;
	for (; index > 0 && part; index--) {
		part = strchr(part, '/');
		part += part != NULL;
	}
	if (index < 0 || !part) {
		*text = '\0';
		return;
	}
	move_to(text, part);
	text[strcspn(text, "/")] = '\0';
}

/* What follows /NAME/; all of it, where that is not there. */
static void take_scope(char *text, const char *name)
{
	size_t length = strlen(name);

	for (const char *c = strstr(text, name); c; c = strstr(c + 1, name)) {
		if ((c == text || c[-1] == '/') && c[length] == '/') {
			move_to(text, c + length + 1);
			return;
		}
	}
}

void smd_transform_apply(const struct smd_transform *transform, char *text)
{
	switch (transform->kind) {
	case SMD_TRANSFORM_NONE:
		break;
	case SMD_TRANSFORM_BASENAME:
		take_basename(text);
		break;
	case SMD_TRANSFORM_DATE:
		text[strcspn(text, ".")] = '\0';
		break;
	case SMD_TRANSFORM_SCOPE:
		take_scope(text, transform->argument);
		break;
	case SMD_TRANSFORM_SEGMENT:
		take_segment(text, transform->argument);
		break;
	case SMD_TRANSFORM_LOWER:
	case SMD_TRANSFORM_UPPER:
		for (char *c = text; *c; c++) {
			*c = (char)(transform->kind == SMD_TRANSFORM_UPPER
					    ? toupper((unsigned char)*c)
					    : tolower((unsigned char)*c));
		}
		break;
	}
}
