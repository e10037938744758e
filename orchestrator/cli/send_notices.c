/* Reads the sender's command line, and becomes it. */
#include "orchestrator/cli/send_notices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/cli/verbs.h"
#include "orchestrator/service/webhook.h"
#include "orchestrator/store/state_dir.h"
#include "reduction_server/base/printable.h"
#include "reduction_server/base/token.h"

#define TIMEOUT_S 10

static int read_options(struct smd_webhook *webhook, int argc, char **argv,
	char secret[SMD_TOKEN_MAX + 1], struct smd_error *error)
{
	const char *url = "";
	const char *secret_file = "";
	const struct smd_option options[] = {
		{"url", "URL", "who is told", smd_option_set_string, &url},
		{"secret-file", "FILE", "what notices are signed with", smd_option_set_path,
			&secret_file},
		{"ca-file", "FILE", "authorities of the receiver's certificate",
			smd_option_set_path, &webhook->reach.ca_file},
	};
	const struct smd_command command = {
		.synopsis = "summand " SMD_WEBHOOK_VERB " --url=URL --secret-file=FILE [OPTION...]",
		.summary = "Tells a webhook of changes of jobs; the service calls it.",
		.options = options,
		.noptions = sizeof(options) / sizeof(options[0]),
	};
	int noperands;
	int ret = smd_options_parse(&command, argc, argv, &noperands, error);

	ret = ret ? ret : smd_url_parse(url, &webhook->url, error);
	return ret ? ret : smd_token_read("--secret-file", secret_file, secret, error);
}

int smd_send_notices(int argc, char **argv)
{
	char secret[SMD_TOKEN_MAX + 1] = "";
	struct smd_webhook webhook = {.reach = {.timeout_s = TIMEOUT_S}, .secret = secret};
	struct smd_error error = {""};
	char *state_dir = NULL;
	int ret = read_options(&webhook, argc, argv, secret, &error);

	ret = ret ? ret : smd_state_dir_open(&state_dir, &error);
	ret = ret ? ret : smd_webhook_run(&webhook, state_dir, &error);
	explicit_bzero(secret, sizeof(secret));
	free(state_dir);
	if (ret) {
		smd_print_line(stderr, "summand: webhook: %s\n", error.text);
	}
	return SMD_EXIT_FAILED;
}
