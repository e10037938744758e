/* The ssh engine: agents on the hosts of a file, by OpenSSH or a command like it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/contract/environment.h"
#include "orchestrator/engine/carrier.h"
#include "orchestrator/engine/ssh/copy.h"
#include "orchestrator/engine/ssh/hostfile.h"

/* No passwords, no terminal; a host that does not answer is given up after 10 s, one that no longer
 * answers after 12 s, before the runner (15 s) does, so that ssh says why. */
#define OPENSSH                                                                                    \
	"ssh -T -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=3 "                   \
	"-o ServerAliveCountMax=3"
#define WORDS_MAX    64
#define SCRIPT_WORDS 5 /* before ssh's, where a script runs it */

static const struct smd_engine_ops ssh_ops = {
	.name = "ssh",
	.allocate = smd_carrier_allocate,
	.release = smd_carrier_release,
	.explain = smd_carrier_explain,
	.close = smd_carrier_close,
};

static int append(char **argv, size_t *count, const char *word)
{
	argv[*count] = strdup(word);
	return argv[(*count)++] ? 0 : -ENOMEM;
}

static int append_words(char **argv, size_t *count, const char *command)
{
	char *copy = strdup(command);
	char *rest = copy;
	char *word;
	size_t most = *count + WORDS_MAX;
	int ret = copy ? 0 : -ENOMEM;

	while (!ret && *count < most && (word = strsep(&rest, " "))) {
		if (*word) {
			ret = append(argv, count, word);
		}
	}
	free(copy);
	return ret;
}

/* The command's words, the host, and what a shell there is to run; with a script, that script's
 * words before its operands, which are the host and the command's words. NULL: out of memory. */
static char **make_argv(
	const char *command, const char *host, const char *agent, const char *script)
{
	const char *const before[SCRIPT_WORDS] = {"sh", "-c", script, "sh", host};
	char **argv = calloc(WORDS_MAX + SCRIPT_WORDS + 3, sizeof(*argv));
	size_t count = 0;
	int ret = argv ? 0 : -ENOMEM;

	for (size_t i = 0; script && !ret && i < SCRIPT_WORDS; i++) {
		ret = append(argv, &count, before[i]);
	}
	ret = ret ? ret : append_words(argv, &count, command);
	if (!ret && !script) {
		ret = append(argv, &count, host);
		ret = ret || asprintf(&argv[count], "exec '%s' --host", agent) < 0 ? -ENOMEM : 0;
	}
	if (ret) {
		smd_argv_free(argv);
		return NULL;
	}
	return argv;
}

static int make_hosts(struct smd_carried_host *hosts, const struct smd_ssh_options *options,
	const char *script)
{
	for (size_t i = 0; i < options->hosts->count; i++) {
		const struct smd_hostfile_line *line = &options->hosts->lines[i];

		hosts[i] = (struct smd_carried_host){.name = strdup(line->host),
			.slots = line->slots,
			.shown = script ? SCRIPT_WORDS : 0,
			.argv = make_argv(options->command ? options->command : OPENSSH,
				line->host, options->agent, script)};
		if (!hosts[i].name || !hosts[i].argv) {
			return -ENOMEM;
		}
	}
	return 0;
}

int smd_engine_ssh_open(
	struct smd_engine **out, const struct smd_ssh_options *options, struct smd_error *error)
{
	struct smd_carried_host *hosts;
	char *script = NULL;
	size_t count = options->hosts->count;
	int ret;

	if (strchr(options->agent, '\'')) {
		return smd_error_set(
			error, EINVAL, "%s: must have no quote in its path", options->agent);
	}
	if (options->command && !options->command[strspn(options->command, " ")]) {
		return smd_error_set(error, EINVAL, "--ssh-command: must name a command, got none");
	}
	ret = options->copies ? smd_copy_make_script(&script, options, error) : 0;
	if (ret) {
		return ret;
	}
	hosts = calloc(count, sizeof(*hosts));
	ret = hosts ? make_hosts(hosts, options, script) : -ENOMEM;
	free(script);
	if (ret == 0) {
		ret = smd_carrier_open(out, &ssh_ops, hosts, count, 0);
	} else if (hosts) {
		smd_carried_hosts_free(hosts, count);
	}
	return ret ? smd_error_set(error, -ret, "engine: %s", strerror(-ret)) : 0;
}
