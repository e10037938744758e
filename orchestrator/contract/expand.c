/* $(NAME) in a spec's text, expanded by the rules of Kubernetes. */
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

/* Writes what stands at "$..." and returns how many bytes of the text it was. */
static size_t expand_one(const struct smd_environment *environment, const char *at, FILE *out)
{
	const char *end;
	const char *value;

	if (at[1] == '$') {
		fputc('$', out);
		return 2;
	}
	end = at[1] == '(' ? strchr(at, ')') : NULL;
	if (!end) {
		fputc('$', out);
		return 1;
	}
	value = find(environment, at + 2, (size_t)(end - at) - 2);
	if (value) {
		fputs(value, out);
	} else {
		fwrite(at, 1, (size_t)(end - at) + 1, out);
	}
	return (size_t)(end - at) + 1;
}

char *smd_environment_expand(const struct smd_environment *environment, const char *text)
{
	char *result = NULL;
	size_t length;
	FILE *out = open_memstream(&result, &length);
	int failed;

	if (!out) {
		return NULL;
	}
	while (*text) {
		size_t plain = strcspn(text, "$");

		fwrite(text, 1, plain, out);
		text += plain;
		if (*text) {
			text += expand_one(environment, text, out);
		}
	}
	failed = ferror(out);
	failed |= fclose(out);
	if (failed) {
		free(result);
		return NULL;
	}
	return result;
}
