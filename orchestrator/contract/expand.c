/* $(NAME) in a spec's text, expanded by the rules of Kubernetes. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/contract/contract.h"

/* The value of the `length` bytes long name, or NULL. */
static const char *find(const struct smd_environment *environment, const char *name, size_t length)
{
	for (size_t i = 0; i < environment->count; i++) {
		const char *candidate = environment->variables[i].name;

		if (strncmp(candidate, name, length) == 0 && candidate[length] == '\0') {
			return environment->variables[i].value;
		}
	}
	return NULL;
}

/* A text while it is expanded. */
struct expansion {
	const struct smd_environment *environment;
	const char *close; /* the next ")" that was found; NULL: there are no more */
	FILE *out;
	size_t room; /* how many bytes more it may have */
};

/* The next ")" after a "$": each part of the text is searched once, however many begin before it.
 */
static const char *find_close(struct expansion *expansion, const char *at)
{
	if (expansion->close && expansion->close <= at) {
		expansion->close = strchr(at, ')');
	}
	return expansion->close;
}

static int write_part(struct expansion *expansion, const char *text, size_t length)
{
	if (length > expansion->room) {
		return -E2BIG;
	}
	expansion->room -= length;
	fwrite(text, 1, length, expansion->out);
	return 0;
}

/* Writes what stands at "$..." and moves *at behind it. */
static int expand_one(struct expansion *expansion, const char **at)
{
	const char *begin = *at;
	const char *end;
	const char *value;

	if (begin[1] == '$') {
		*at += 2;
		return write_part(expansion, "$", 1);
	}
	end = begin[1] == '(' ? find_close(expansion, begin) : NULL;
	if (!end) {
		*at += 1;
		return write_part(expansion, "$", 1);
	}
	*at = end + 1;
	value = find(expansion->environment, begin + 2, (size_t)(end - begin) - 2);
	return value ? write_part(expansion, value, strlen(value))
		     : write_part(expansion, begin, (size_t)(*at - begin));
}

static int expand_all(struct expansion *expansion, const char *text)
{
	int ret = 0;

	while (*text && !ret) {
		size_t plain = strcspn(text, "$");

		ret = write_part(expansion, text, plain);
		text += plain;
		if (*text && !ret) {
			ret = expand_one(expansion, &text);
		}
	}
	return ret;
}

int smd_environment_expand(
	const struct smd_environment *environment, const char *text, size_t max, char **out)
{
	struct expansion expansion = {.environment = environment, .close = text, .room = max};
	char *result = NULL;
	size_t length;
	int ret;

	expansion.out = open_memstream(&result, &length);
	if (!expansion.out) {
		return -ENOMEM;
	}
	ret = expand_all(&expansion, text);
	if ((ferror(expansion.out) | fclose(expansion.out)) && !ret) {
		ret = -ENOMEM;
	}
	if (ret) {
		free(result);
		return ret;
	}
	*out = result;
	return 0;
}

/* "$NAME" or "${NAME}" at text: the name, and what is behind it. NULL: neither. */
static const char *read_name(const char *text, size_t *length, const char **behind)
{
	static const char characters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
					 "0123456789_";
	int has_brace = text[1] == '{';
	const char *name = text + 1 + has_brace;

	*length = strspn(name, characters);
	*behind = name + *length + has_brace;
	return *length > 0 && (!has_brace || name[*length] == '}') ? name : NULL;
}

char *smd_environment_refer(const struct smd_environment *environment, const char *text)
{
	char *result = NULL;
	size_t size;
	FILE *out = open_memstream(&result, &size);

	while (out && *text) {
		const char *behind = NULL;
		size_t length = 0;
		const char *name = *text == '$' ? read_name(text, &length, &behind) : NULL;

		if (name && find(environment, name, length)) {
			fprintf(out, "$(%.*s)", (int)length, name);
			text = behind;
		} else {
			fputc(*text++, out);
		}
	}
	if (!out || fclose(out)) {
		free(result);
		return NULL;
	}
	return result;
}
