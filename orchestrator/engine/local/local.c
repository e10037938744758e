/* The local engine: one agent on this machine, as a child of the runner. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/engine/carrier.h"

static const struct smd_engine_ops local_ops = {
	.name = "local",
	.allocate = smd_carrier_allocate,
	.release = smd_carrier_release,
	.explain = smd_carrier_explain,
	.close = smd_carrier_close,
};

int smd_engine_local_open(struct smd_engine **out, const char *agent, struct smd_error *error)
{
	struct smd_carried_host *host = calloc(1, sizeof(*host));
	char **argv = calloc(3, sizeof(*argv));
	int ret = -ENOMEM;

	if (host && argv) {
		*host = (struct smd_carried_host){.name = strdup("localhost"), .argv = argv};
		argv[0] = strdup(agent);
		argv[1] = argv[0] ? strdup("--host") : NULL;
	} else {
		free(argv);
	}
	if (host && host->name && argv && argv[1]) {
		ret = smd_carrier_open(out, &local_ops, host, 1, 1);
	} else if (host) {
		smd_carried_hosts_free(host, 1);
	}
	return ret ? smd_error_set(error, -ret, "engine: %s", strerror(-ret)) : 0;
}
