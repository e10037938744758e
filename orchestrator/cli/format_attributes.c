/* Reads the attributes of a format. */
#include "orchestrator/cli/format_attributes.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OF(kind)  (1U << SMD_FORMAT_##kind)
#define OF_LINES  (OF(CSV) | OF(GET) | OF(VALUE))
#define OF_ALL    (OF_LINES | OF(JSON) | OF(YAML) | OF(FLATTENED) | OF(NONE) | OF(TABLE))
#define LIST_SIZE 256

#define FLAG(text, kinds, field)                                                                   \
	{                                                                                          \
		text, kinds, 0, offsetof(struct smd_format_attributes, field)                      \
	}
#define TEXT(text, kinds, field)                                                                   \
	{                                                                                          \
		text, kinds, 1, offsetof(struct smd_format_attributes, field)                      \
	}

static const struct attribute {
	const char *name;
	unsigned kinds; /* that have it */
	int has_value;
	size_t offset;
} table[] = {
	FLAG("no-heading", OF(CSV) | OF(TABLE), no_heading),
	FLAG("box", OF(TABLE), box),
	TEXT("separator", OF_LINES | OF(FLATTENED), separator),
	TEXT("delimiter", OF_LINES, delimiter),
	TEXT("terminator", OF_LINES, terminator),
	FLAG("quote", OF(GET) | OF(VALUE), quote),
	FLAG("no-quote", OF(CSV), no_quote),
	FLAG("no-pad", OF(FLATTENED), no_pad),
	FLAG("no-transforms", OF_ALL, no_transforms),
};

static int refuse(enum smd_format_kind kind, const char *name, struct smd_error *error)
{
	char list[LIST_SIZE] = "";
	size_t used = 0;

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		if (table[i].kinds & 1U << kind) {
			used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s%s",
				used ? ", " : "", table[i].name,
				table[i].has_value ? "=\"TEXT\"" : "");
		}
	}
	return smd_error_set(
		error, EINVAL, "must have in %s[...], with commas between, only: %s", name, list);
}

static const struct attribute *find(const char *name, size_t length, enum smd_format_kind kind)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		if (table[i].kinds & 1U << kind && strlen(table[i].name) == length &&
			strncmp(table[i].name, name, length) == 0) {
			return &table[i];
		}
	}
	return NULL;
}

/* The character that a backslash and this one stand for. */
static char escaped(char c)
{
	return c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
}

/* A word, or what stands between quotes. -EINVAL: the quote does not end. */
static int take_value(const char **text, char **value)
{
	const char *from = *text;
	char quote = *from == '"' || *from == '\'' ? *from++ : '\0';
	size_t used = 0;

	free(*value);
	*value = malloc(strlen(from) + 1);
	if (!*value) {
		return -ENOMEM;
	}
	while (*from && (quote ? *from != quote : !strchr(" ,]", *from))) {
		if (*from == '\\' && from[1]) {
			(*value)[used++] = escaped(from[1]);
			from += 2;
		} else {
			(*value)[used++] = *from++;
		}
	}
	(*value)[used] = '\0';
	if (quote && *from++ != quote) {
		return -EINVAL;
	}
	*text = from;
	return 0;
}

static int take_attribute(
	struct smd_format_attributes *attributes, enum smd_format_kind kind, const char **text)
{
	size_t length = strcspn(*text, "=, ]");
	const struct attribute *found = find(*text, length, kind);
	char *place = (char *)attributes;

	if (!found || ((*text)[length] == '=') != found->has_value) {
		return -EINVAL;
	}
	*text += length;
	if (found->has_value) {
		++*text;
		return take_value(text, (char **)(void *)(place + found->offset));
	}
	*(int *)(void *)(place + found->offset) = 1;
	return 0;
}

int smd_format_attributes_parse(struct smd_format_attributes *attributes, enum smd_format_kind kind,
	const char *name, const char **text, struct smd_error *error)
{
	int ret = 0;

	if (**text != '[') {
		return 0;
	}
	++*text;
	while (!ret) {
		*text += strspn(*text, " ,");
		if (**text == ']') {
			++*text;
			return 0;
		}
		ret = take_attribute(attributes, kind, text);
		if (!ret && !strchr(" ,]", **text)) {
			ret = -EINVAL;
		}
	}
	return ret == -EINVAL ? refuse(kind, name, error) : ret;
}

void smd_format_attributes_destroy(struct smd_format_attributes *attributes)
{
	free(attributes->separator);
	free(attributes->delimiter);
	free(attributes->terminator);
}
