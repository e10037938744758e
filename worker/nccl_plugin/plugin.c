/* Decides whether the plugin takes part, and says so. */
#include "worker/nccl_plugin/plugin.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/libsummand/config.h"
#include "worker/nccl_plugin/abi/log.h"
#include "worker/nccl_plugin/abi/loss.h"
#include "worker/nccl_plugin/abi/version.h"
#include "worker/nccl_plugin/collnet/collnet.h"
#include "worker/nccl_plugin/collnet/loops.h"
#include "worker/nccl_plugin/device/device.h"
#include "worker/nccl_plugin/device/gdr.h"
#include "worker/nccl_plugin/net/options.h"

#define ABI_VERSIONS "net and collnet v6, v8 to v12, tuner v2 to v5"

struct decision {
	bool on;
	struct smd_tuner_servers servers;
	char text[SMD_ERROR_TEXT_MAX]; /* of the first line, from the servers on */
	char wire[160];                /* what SUMMAND_WIRE does; empty: nothing */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct decision last; /* no text: none yet */

static void describe(const struct smd_config *config, char *text, size_t size)
{
	int used = snprintf(text, size, "servers ");

	for (unsigned i = 0; i < config->nservers && used < (int)size - 64; i++) {
		used += snprintf(
			text + used, size - (size_t)used, "%s%s", i ? "," : "", config->servers[i]);
	}
	used = used < (int)size - 64 ? used : (int)size - 64;
	snprintf(text + used, size - (size_t)used, "; transport %s; on",
		config->ntransports > 1 ? "auto" : config->transports[0]->name);
}

/* What listen() would refuse, when NCCL can no longer go on with its own networks. */
static int check_devices(struct smd_error *error)
{
	struct smd_net_options options;
	int ret = 0;

	for (int i = 0; ret == 0 && i < smd_nccl_devices(); i++) {
		ret = smd_net_options_read(smd_nccl_device(i), &options, error);
	}
	return ret;
}

/* What has no value that there is would be found out when NCCL connects, or never. */
static int check_settings(struct smd_error *error)
{
	unsigned loops;
	int ret = smd_loops_read(&loops, error);

	ret = ret ? ret : smd_gdr_read(error);
	return ret ? ret : smd_loss_read(error);
}

static void decide(struct decision *decision)
{
	const char *enable = getenv("NCCL_COLLNET_ENABLE");
	struct smd_config config;
	struct smd_error error = {""};

	*decision = (struct decision){.on = false};
	if (!enable || strcmp(enable, "1") != 0) {
		snprintf(decision->text, sizeof(decision->text),
			"off: NCCL_COLLNET_ENABLE must be 1, got %s%s%s", enable ? "\"" : "",
			enable ? enable : "nothing", enable ? "\"" : "");
		return;
	}
	if (smd_config_read(NULL, &config, &error)) {
		snprintf(decision->text, sizeof(decision->text), "off: %s", error.text);
		return;
	}
	if (check_settings(&error) || check_devices(&error)) {
		snprintf(decision->text, sizeof(decision->text), "off: %s", error.text);
		smd_config_free(&config);
		return;
	}
	decision->on = true;
	decision->servers = smd_tuner_find_servers(&config, smd_nccl_devices());
	describe(&config, decision->text, sizeof(decision->text));
	smd_loops_describe_wire(&config, decision->wire, sizeof(decision->wire));
	smd_config_free(&config);
}

int smd_plugin_begin(nccl_logger *log)
{
	struct decision decision;

	smd_nccl_log_open(log);
	if (smd_nccl_is_rccl(log)) {
		smd_collnet_leave_float8();
	}
	decide(&decision);
	pthread_mutex_lock(&lock);
	if (strcmp(decision.text, last.text) != 0) {
		smd_nccl_log_info(NCCL_SUB_INIT | NCCL_SUB_NET, "%s; %s; %s", SUMMAND_VERSION,
			ABI_VERSIONS, decision.text);
	}
	if (*decision.wire && strcmp(decision.wire, last.wire) != 0) {
		smd_nccl_log_info(NCCL_SUB_INIT | NCCL_SUB_NET, "%s", decision.wire);
	}
	last = decision;
	pthread_mutex_unlock(&lock);
	return decision.on ? NCCL_SUCCESS : NCCL_INTERNAL_ERROR;
}

struct smd_tuner_servers smd_plugin_servers(void)
{
	struct smd_tuner_servers servers;

	pthread_mutex_lock(&lock);
	servers = last.servers;
	pthread_mutex_unlock(&lock);
	return servers;
}
