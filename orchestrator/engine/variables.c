/* Lays a replica's variables over those of this process. */
#include "orchestrator/engine/variables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_DEFAULT "/usr/local/bin:/usr/bin:/bin"

static const char *inherited_value(char *const *inherited, const char *name)
{
	size_t length = strlen(name);

	for (size_t i = 0; inherited[i]; i++) {
		if (strncmp(inherited[i], name, length) == 0 && inherited[i][length] == '=') {
			return inherited[i] + length + 1;
		}
	}
	return NULL;
}

static int is_overridden(const char *text, const struct smd_environment *environment)
{
	static const char *const ours[] = {"PATH=", "SUMMAND_NOTIFY_FD="};

	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
		if (strncmp(text, ours[i], strlen(ours[i])) == 0) {
			return 1;
		}
	}
	for (size_t i = 0; i < environment->count; i++) {
		const char *name = environment->variables[i].name;
		size_t length = strlen(name);

		if (strncmp(text, name, length) == 0 && text[length] == '=') {
			return 1;
		}
	}
	return 0;
}

static char *path_variable(
	char *const *inherited, const struct smd_environment *environment, const char *program_dir)
{
	const char *given = smd_environment_get(environment, "PATH");
	const char *path = inherited_value(inherited, "PATH");
	char *text;
	int ret;

	if (given) {
		ret = asprintf(&text, "PATH=%s:%s", given, program_dir);
	} else {
		ret = asprintf(&text, "PATH=%s:%s", program_dir, path ? path : PATH_DEFAULT);
	}
	return ret < 0 ? NULL : text;
}

static char *variable_text(const char *name, const char *value)
{
	char *text;

	return asprintf(&text, "%s=%s", name, value) < 0 ? NULL : text;
}

char **smd_variables_merge(char *const *inherited, const struct smd_environment *environment,
	const char *program_dir, int notify_fd)
{
	size_t ninherited = 0;
	size_t count = 0;
	char number[16];
	char **merged;

	while (inherited[ninherited]) {
		ninherited++;
	}
	merged = calloc(ninherited + environment->count + 3, sizeof(*merged));
	if (!merged) {
		return NULL;
	}
	snprintf(number, sizeof(number), "%d", notify_fd);
	merged[count] = path_variable(inherited, environment, program_dir);
	if (!merged[count++]) {
		goto free_merged;
	}
	merged[count] = variable_text("SUMMAND_NOTIFY_FD", number);
	if (!merged[count++]) {
		goto free_merged;
	}
	for (size_t i = 0; i < environment->count; i++) {
		const struct smd_variable *variable = &environment->variables[i];

		if (strcmp(variable->name, "PATH") == 0 ||
			strcmp(variable->name, "SUMMAND_NOTIFY_FD") == 0) {
			continue;
		}
		merged[count] = variable_text(variable->name, variable->value);
		if (!merged[count++]) {
			goto free_merged;
		}
	}
	for (size_t i = 0; i < ninherited; i++) {
		if (is_overridden(inherited[i], environment)) {
			continue;
		}
		merged[count] = strdup(inherited[i]);
		if (!merged[count++]) {
			goto free_merged;
		}
	}
	return merged;
free_merged:
	smd_argv_free(merged);
	return NULL;
}
