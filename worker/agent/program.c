/* Finds Summand's own programs and libraries. */
#include "worker/agent/program.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/agent/descendants.h"

#define AGENT  SMD_AGENT_PROGRAM
#define PLUGIN "libnccl-net-summand.so"

char *smd_program_folder(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? strndup(path, (size_t)(slash - path)) : strdup(".");
}

/* The first of the places below the folder that has the file; its path, or NULL with errno. */
static char *find(const char *folder, const char *const places[], size_t count, const char *name)
{
	char *found = NULL;

	for (size_t i = 0; i < count && !found; i++) {
		char *path;

		if (asprintf(&path, "%s/%s/%s", folder, places[i], name) < 0) {
			errno = ENOMEM;
			return NULL;
		}
		found = realpath(path, NULL);
		free(path);
	}
	return found;
}

int smd_program_find_agent(char **out, struct smd_error *error)
{
	static const char *const places[] = {".", "../bin"};
	char *program = realpath("/proc/self/exe", NULL);
	char *folder = program ? smd_program_folder(program) : NULL;
	int ret = 0;

	free(program);
	if (!folder) {
		return smd_error_set(error, ENOENT, "/proc/self/exe: must name this program");
	}
	*out = find(folder, places, sizeof(places) / sizeof(places[0]), AGENT);
	if (!*out) {
		ret = smd_error_set(
			error, ENOENT, AGENT ": must be beside the program, in %s", folder);
	}
	free(folder);
	return ret;
}

int smd_program_find_plugin(const char *program_dir, char **out)
{
	static const char *const places[] = {"../lib", "../" LIBRARY_DIR};
	char *path;

	errno = 0;
	path = find(program_dir, places, sizeof(places) / sizeof(places[0]), PLUGIN);
	*out = path ? smd_program_folder(path) : NULL;
	free(path);
	return !*out && (path || errno == ENOMEM) ? -ENOMEM : 0;
}
