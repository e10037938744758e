/* `summand env-gcloud`: the variables by which gcloud talks to a service instead of to Google. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "orchestrator/cli/serve.h"
#include "orchestrator/cli/verbs.h"
#include "orchestrator/store/state_dir.h"
#include "reduction_server/base/parse.h"
#include "reduction_server/base/printable.h"

#define URL_SIZE    256
#define URL_DEFAULT "http://127.0.0.1:8080"
#define PROJECT     "local"
#define PLAIN       "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/[]@%+=,~"

/* Where the service of this state directory has written that it listens; or the default. */
static void find_url(char url[URL_SIZE])
{
	struct smd_error error = {""};
	char *state_dir = NULL;
	char *path = NULL;
	ssize_t length = -1;

	if (smd_state_dir_open(&state_dir, &error) == 0 &&
		asprintf(&path, "%s/service", state_dir) >= 0) {
		int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

		if (fd >= 0) {
			length = read(fd, url, URL_SIZE - 1);
			close(fd);
		}
		free(path);
	}
	if (length > 0) {
		url[length] = '\0';
		url[strcspn(url, "\n")] = '\0';
	} else {
		snprintf(url, URL_SIZE, URL_DEFAULT);
		smd_print_line(stderr,
			"summand: warning: no service has run in this state directory; " URL_DEFAULT
			" is taken\n");
	}
	free(state_dir);
}

/* What a shell reads as it is. */
static int set_plain(void *target, const char *value, struct smd_error *error)
{
	if (!*value || value[strspn(value, PLAIN)]) {
		return smd_error_set(error, EINVAL, "must have no blanks, quotes or the like");
	}
	*(const char **)target = value;
	return 0;
}

static int set_url(void *target, const char *value, struct smd_error *error)
{
	if (strncmp(value, "http://", 7) != 0 && strncmp(value, "https://", 8) != 0) {
		return smd_error_set(error, EINVAL, "must begin with http:// or https://");
	}
	return set_plain(target, value, error);
}

int smd_env_gcloud(int argc, char **argv)
{
	const char *url = NULL;
	const char *project = PROJECT;
	const char *token_file = NULL;
	const char *ca_file = NULL;
	const struct smd_option options[] = {
		{"url", "URL", "the service (default: the one of the state directory)", set_url,
			&url},
		{"project", "PROJECT", "whose jobs are created and shown (default " PROJECT ")",
			set_plain, &project},
		{"token-file", "FILE", "the file with the service's token", set_plain, &token_file},
		{"ca", "FILE", "the authority of the service's certificate", set_plain, &ca_file},
	};
	const struct smd_command command = {
		.synopsis = "summand env-gcloud [OPTION...]",
		.summary = "Prints the variables by which gcloud talks to a service: eval "
			   "\"$(summand env-gcloud)\".",
		.options = options,
		.noptions = sizeof(options) / sizeof(options[0]),
		.exits = SMD_EXITS,
	};
	struct smd_error error = {""};
	char found[URL_SIZE];
	int noperands;
	int ret = smd_options_parse(&command, argc, argv, &noperands, &error);

	if (!ret && noperands > 0) {
		ret = smd_error_set(&error, EINVAL, "%s: nothing is expected here", argv[1]);
	}
	if (ret) {
		if (ret != -ENOEXEC) {
			smd_print_line(stderr, "summand: %s\n", error.text);
		}
		return ret == -ENOEXEC ? SMD_EXIT_OK : SMD_EXIT_USAGE;
	}
	if (!url) {
		find_url(found);
		url = found;
	}
	printf("export CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM=%s/\n"
	       "export CLOUDSDK_API_ENDPOINT_OVERRIDES_LOGGING=%s/\n"
	       "export CLOUDSDK_CORE_PROJECT=%s\n"
	       "export CLOUDSDK_CORE_DISABLE_PROMPTS=1\n",
		url, url, project);
	/* What another service has needed before would be in the way. */
	if (token_file) {
		printf("export CLOUDSDK_AUTH_ACCESS_TOKEN_FILE=%s\n"
		       "unset CLOUDSDK_AUTH_DISABLE_CREDENTIALS\n",
			token_file);
	} else {
		printf("export CLOUDSDK_AUTH_DISABLE_CREDENTIALS=true\n"
		       "unset CLOUDSDK_AUTH_ACCESS_TOKEN_FILE\n");
	}
	if (ca_file) {
		printf("export CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE=%s\n", ca_file);
	} else {
		printf("unset CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE\n");
	}
	return SMD_EXIT_OK;
}
