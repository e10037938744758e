/* Lays a replica's variables over those of this process. */
#include "worker/agent/host/variables.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/contract/caller.h"

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

/* The variables so far. A name that is there already keeps its value. */
struct variable_list {
	char **texts;
	size_t count;
};

static int has(const struct variable_list *list, const char *text)
{
	size_t length = strcspn(text, "=") + 1;

	for (size_t i = 0; i < list->count; i++) {
		if (strncmp(list->texts[i], text, length) == 0) {
			return 1;
		}
	}
	return 0;
}

static int add(struct variable_list *list, const char *name, const char *value)
{
	char *text;

	if (asprintf(&text, "%s=%s", name, value) < 0) {
		return -ENOMEM;
	}
	if (has(list, text)) {
		free(text);
	} else {
		list->texts[list->count++] = text;
	}
	return 0;
}

/* A folder at the front of a list of folders, or at the end of one that the environment sets. */
static int add_folder(struct variable_list *list, char *const *inherited,
	const struct smd_environment *environment, const char *name, const char *folder,
	const char *otherwise)
{
	const char *given = smd_environment_get(environment, name);
	const char *outer = inherited_value(inherited, name);
	const char *first = given ? given : folder;
	const char *second = given ? folder : outer ? outer : otherwise;
	char *value;
	int ret = asprintf(&value, "%s%s%s", first, *first && *second ? ":" : "", second);

	if (ret < 0) {
		return -ENOMEM;
	}
	ret = add(list, name, value);
	free(value);
	return ret;
}

char **smd_variables_merge(char *const *inherited, const struct smd_environment *environment,
	const char *program_dir, const char *library_dir, int notify_fd)
{
	struct variable_list list = {0};
	size_t ninherited = 0;
	char number[16];
	int ret;

	while (inherited[ninherited]) {
		ninherited++;
	}
	list.texts = calloc(ninherited + environment->count + 4, sizeof(*list.texts));
	if (!list.texts) {
		return NULL;
	}
	snprintf(number, sizeof(number), "%d", notify_fd);
	ret = add_folder(&list, inherited, environment, "PATH", program_dir, PATH_DEFAULT);
	if (!ret && library_dir) {
		ret = add_folder(&list, inherited, environment, "LD_LIBRARY_PATH", library_dir, "");
	}
	ret = ret ? ret : add(&list, "SUMMAND_NOTIFY_FD", number);
	for (size_t i = 0; i < environment->count && !ret; i++) {
		ret = add(&list, environment->variables[i].name, environment->variables[i].value);
	}
	for (size_t i = 0; i < ninherited && !ret; i++) {
		if (!has(&list, inherited[i]) &&
			!smd_caller_withholds(inherited, inherited[i], environment)) {
			list.texts[list.count] = strdup(inherited[i]);
			ret = list.texts[list.count] ? 0 : -ENOMEM;
			list.count += ret == 0;
		}
	}
	if (ret) {
		smd_argv_free(list.texts);
		return NULL;
	}
	return list.texts;
}
