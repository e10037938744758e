/* The ssh engine: agents on the hosts of a file, by OpenSSH or a command like it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/contract/environment.h"
#include "orchestrator/engine/carrier.h"
#include "orchestrator/engine/ssh/hostfile.h"

/* No passwords, no terminal; a host that does not answer is given up after 10 s, one that no longer
 * answers after 12 s, before the runner (15 s) does, so that ssh says why. */
#define OPENSSH                                                                                    \
	"ssh -T -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=3 "                   \
	"-o ServerAliveCountMax=3"
#define WORDS_MAX 64

static const struct smd_engine_ops ssh_ops = {
	.name = "ssh",
	.allocate = smd_carrier_allocate,
	.release = smd_carrier_release,
	.close = smd_carrier_close,
};

/* The command's words, the host, and what a shell there is to run. NULL: out of memory. */
static char **make_argv(const char *command, const char *host, const char *agent)
{
	char **argv = calloc(WORDS_MAX + 3, sizeof(*argv));
	char *copy = strdup(command);
	char *rest = copy;
	char *word;
	size_t count = 0;
	int failed = !argv || !copy;

	while (!failed && count < WORDS_MAX && (word = strsep(&rest, " "))) {
		if (*word) {
			argv[count] = strdup(word);
			failed = !argv[count++];
		}
	}
	if (!failed) {
		argv[count] = strdup(host);
		failed = !argv[count++] || asprintf(&argv[count], "exec '%s' --host", agent) < 0;
	}
	free(copy);
	if (failed) {
		smd_argv_free(argv);
		return NULL;
	}
	return argv;
}

static int make_hosts(struct smd_carried_host *hosts, const struct smd_hostfile_line *lines,
	size_t count, const struct smd_ssh_options *options)
{
	for (size_t i = 0; i < count; i++) {
		hosts[i] = (struct smd_carried_host){.name = strdup(lines[i].host),
			.slots = lines[i].slots,
			.argv = make_argv(options->command ? options->command : OPENSSH,
				lines[i].host, options->agent)};
		if (!hosts[i].name || !hosts[i].argv) {
			return -ENOMEM;
		}
	}
	return 0;
}

int smd_engine_ssh_open(
	struct smd_engine **out, const struct smd_ssh_options *options, struct smd_error *error)
{
	struct smd_hostfile_line *lines;
	struct smd_carried_host *hosts;
	size_t count;
	int ret;

	if (!options->hostfile) {
		return smd_error_set(error, EINVAL,
			"--engine=ssh: must be told its hosts with --hostfile=FILE");
	}
	if (strchr(options->agent, '\'')) {
		return smd_error_set(error, EINVAL, "%s: must have no quote in its path",
			options->agent);
	}
	ret = smd_hostfile_read(options->hostfile, &lines, &count, error);
	if (ret) {
		return ret;
	}
	hosts = calloc(count, sizeof(*hosts));
	ret = hosts ? make_hosts(hosts, lines, count, options) : -ENOMEM;
	smd_hostfile_free(lines, count);
	if (ret == 0) {
		ret = smd_carrier_open(out, &ssh_ops, hosts, count, 0);
	} else if (hosts) {
		smd_carried_hosts_free(hosts, count);
	}
	return ret ? smd_error_set(error, -ret, "engine: %s", strerror(-ret)) : 0;
}
