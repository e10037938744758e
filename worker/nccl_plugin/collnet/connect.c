/* How a CollNet communicator comes about, on all nodes or on none. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/dtype.h"
#include "reduction_server/base/hash.h"
#include "worker/libsummand/context.h"
#include "worker/libsummand/group.h"
#include "worker/nccl_plugin/abi/argument.h"
#include "worker/nccl_plugin/abi/log.h"
#include "worker/nccl_plugin/abi/result.h"
#include "worker/nccl_plugin/collnet/agreement.h"
#include "worker/nccl_plugin/collnet/capacity.h"
#include "worker/nccl_plugin/collnet/collnet.h"
#include "worker/nccl_plugin/collnet/comm.h"
#include "worker/nccl_plugin/collnet/local_ranks.h"
#include "worker/nccl_plugin/collnet/loops.h"
#include "worker/nccl_plugin/collnet/tuner.h"
#include "worker/nccl_plugin/device/device.h"

/* What this node says of itself to the others. */
struct identity {
	char name[SMD_AGREEMENT_NAME_MAX + 1];
	char servers[256]; /* before them how this plugin cuts chunks, and what is set */
	uint64_t pool;     /* of the job, and of all of that */
	unsigned timeout_s;
	unsigned wire;
	uint64_t list; /* the servers alone, */
	bool asked;    /* who are to say what they carry */
};

/* With the 0 at its end, so that texts do not run into each other. */
static uint64_t hash_text(uint64_t hash, const char *text)
{
	return smd_hash(hash, text, strlen(text) + 1);
}

static void append(struct identity *identity, size_t *used, const char *one, const char *two)
{
	*used += (size_t)snprintf(identity->servers + *used, sizeof(identity->servers) - *used,
		"%s%s", one, two);
	*used = *used < sizeof(identity->servers) ? *used : sizeof(identity->servers) - 1;
	identity->pool = hash_text(hash_text(identity->pool, one), two);
}

static void append_setting(
	struct identity *identity, size_t *used, const char *name, const char *value)
{
	append(identity, used, name, "=");
	append(identity, used, value, " ");
}

/* Nodes whose tuners were told other things would wait for each other, each in its own algorithm. */
static void append_tuner(
	struct identity *identity, size_t *used, const struct smd_tuner_servers *servers)
{
	struct smd_tuner_settings settings;
	struct smd_local_ranks ranks;
	char number[32];

	smd_tuner_read(&settings);
	smd_local_ranks_find(&ranks);
	if (settings.sized) { /* 1M is 1048576 */
		snprintf(number, sizeof(number), "%llu", (unsigned long long)settings.min_bytes);
		append_setting(identity, used, SMD_TUNER_MIN_BYTES, number);
	}
	if (settings.linked) {
		snprintf(
			number, sizeof(number), "%u/%u", settings.links.part, settings.links.whole);
		append_setting(identity, used, SMD_TUNER_LINKS, number);
	}
	/* Where a node has several GPUs the tuner does not ask. */
	if (!settings.sized && servers->networks > 1 && ranks.count == 1) {
		snprintf(number, sizeof(number), "%u", servers->networks);
		append_setting(identity, used, "networks", number);
	}
	identity->asked = !settings.sized && !settings.linked;
	identity->list = servers->list;
}

static int identity_read(struct identity *identity, struct smd_error *error)
{
	struct smd_tuner_servers servers;
	struct smd_config config;
	int ret = smd_config_read(NULL, &config, error);
	size_t used = 0;

	memset(identity, 0, sizeof(*identity));
	identity->timeout_s = SMD_CONNECT_TIMEOUT_S;
	snprintf(identity->name, sizeof(identity->name), "?");
	if (ret) {
		return ret;
	}
	snprintf(identity->name, sizeof(identity->name), "%s", config.replica);
	identity->timeout_s = config.connect_timeout_s;
	identity->pool = hash_text(SMD_HASH_SEED, config.job);
	append(identity, &used, "pipelined", " "); /* other versions of the plugin cut chunks otherwise */
	servers = smd_tuner_find_servers(&config, smd_nccl_devices());
	append_tuner(identity, &used, &servers);
	identity->wire = smd_loops_wire(&config);
	if (smd_loops_narrow(identity->wire)) {
		append_setting(identity, &used, "SUMMAND_WIRE", smd_dtype_name(identity->wire));
	}
	for (unsigned i = 0; i < config.nservers; i++) {
		append(identity, &used, i ? "," : "", config.servers[i]);
	}
	smd_config_free(&config);
	return 0;
}

/* At least a second, for those who ask for very little. */
static unsigned part_of(unsigned seconds, unsigned eighths)
{
	unsigned part = seconds * eighths / 8;

	return part ? part : 1;
}

/* What this node is to say that servers carry; 0: it does not know. Where a host has several ranks
 * they may be in as many communicators, which use the servers together. */
static uint32_t coll_server_mbps(const struct smd_coll *coll)
{
	struct smd_local_ranks ranks;
	uint32_t declared;

	if (!coll->capacity || !coll->loops.held) {
		return 0;
	}
	smd_local_ranks_find(&ranks);
	declared =
		smd_context_server_mbps(smd_shared_context_get_context(coll->loops.each[0].shared));
	return smd_capacity_vote(coll->capacity, ranks.count == 1 ? declared : 0);
}

/* The outcome is the same on all nodes; see specs/design/collnet.md for the times. */
static int agree(struct smd_coll *coll, struct smd_agreement *agreement,
	const struct smd_nccl_device *device, const struct identity *identity, int own,
	struct smd_error *own_error, struct smd_error *error)
{
	unsigned timeout_s = identity->timeout_s;
	uint64_t begin_ns = smd_clock_ns();
	uint64_t eighth_ns = timeout_s * SMD_SECOND_NS / 8;
	struct smd_agreement_terms terms;
	int ret;

	if (own == 0) {
		own = smd_loops_hold(&coll->loops, device, part_of(timeout_s, 4), own_error);
	}
	terms = (struct smd_agreement_terms){
		.loops = coll->loops.held, .server_mbps = coll_server_mbps(coll)};
	ret = smd_agreement_vote(
		agreement, own, own_error, &terms, begin_ns + 5 * eighth_ns, eighth_ns / 2, error);
	if (ret) {
		return ret;
	}
	begin_ns = smd_clock_ns(); /* all have heard the verdict just now */
	smd_loops_keep(&coll->loops, terms.loops);
	own = coll->capacity ? smd_capacity_settle(coll->capacity, terms.server_mbps, own_error)
			     : 0;
	own = own ? own
		  : smd_loops_join(&coll->loops, terms.loops, smd_agreement_group(agreement),
			    coll->node, part_of(timeout_s, 2), own_error);
	terms.loops = coll->loops.count;
	ret = smd_agreement_vote(agreement, own, own_error, &terms,
		begin_ns + 2 * eighth_ns + eighth_ns / 4, eighth_ns / 4, error);
	if (ret == 0) {
		smd_loops_keep(&coll->loops, terms.loops);
	}
	return ret;
}

static void coll_describe(const struct smd_coll *coll, char text[160])
{
	const struct smd_context *context = coll->loops.each[0].comm->context;
	int used = snprintf(text, 160, "%u reduction server%s, %u shard%s",
		context->config.ninitial, context->config.ninitial == 1 ? "" : "s",
		context->ninitial, context->ninitial == 1 ? "" : "s");

	if (coll->loops.count > 1) {
		used += snprintf(
			text + used, (size_t)(160 - used), ", by %u loops", coll->loops.count);
	}
	if (coll->capacity && smd_capacity_mbps(coll->capacity)) {
		snprintf(text + used, (size_t)(160 - used), "; servers carry %u Mbit/s",
			smd_capacity_mbps(coll->capacity));
	}
}

static void coll_log(const struct smd_coll *coll, int err, const struct smd_error *error)
{
	char text[160];

	if (err) {
		smd_nccl_log_info(NCCL_SUB_INIT | NCCL_SUB_NET,
			"CollNet over %u nodes (this is node %u): off: %s", coll->nnodes,
			coll->node, error->text);
	} else {
		coll_describe(coll, text);
		smd_nccl_log_info(NCCL_SUB_INIT | NCCL_SUB_NET,
			"CollNet over %u nodes (this is node %u): on, through %s", coll->nnodes,
			coll->node, text);
	}
}

/* Where nothing tells the tuner, servers do. */
static int coll_ask_servers(
	struct smd_coll *coll, const struct identity *identity, struct smd_error *error)
{
	if (identity->asked) {
		coll->capacity = smd_capacity_get(identity->list);
	}
	return identity->asked && !coll->capacity ? smd_error_set(error, ENOMEM, "out of memory")
						  : 0;
}

static int coll_connect(struct smd_coll *coll, const void *handle,
	struct smd_agreement_place *place, struct smd_error *error)
{
	struct smd_error own_error = {""};
	struct smd_agreement *agreement;
	struct identity identity;
	int own = identity_read(&identity, &own_error);
	const struct smd_agreement_side side = {
		.nnodes = coll->nnodes,
		.node = coll->node,
		.name = identity.name,
		.pool = identity.pool,
		.servers = identity.servers,
	};
	int ret = smd_agreement_begin(place, handle, &side, &agreement, error);

	if (ret) {
		return ret;
	}
	own = own ? own : coll_ask_servers(coll, &identity, &own_error);
	own = own ? own : smd_loops_want(&coll->loops, coll->nnodes, &own_error);
	coll->loops.wire = identity.wire;
	ret = agree(coll, agreement, smd_agreement_device(place), &identity, own, &own_error, error);
	smd_agreement_end(agreement);
	return ret;
}

int smd_collnet_listen(int dev, void *handle, void **listen_comm)
{
	struct smd_agreement_place *place;
	struct smd_error error = {""};
	int ret;

	if (smd_nccl_lacks_any("listen", "handle", handle, "result", listen_comm)) {
		return NCCL_INVALID_ARGUMENT;
	}
	if (dev < 0 || dev >= smd_nccl_devices()) {
		smd_nccl_log_warn(
			"CollNet: a device must be 0 to %d, got %d", smd_nccl_devices() - 1, dev);
		return NCCL_INVALID_ARGUMENT;
	}
	ret = smd_agreement_listen(smd_nccl_device(dev), handle, &place, &error);
	if (ret) {
		smd_nccl_log_warn("CollNet: %s", error.text);
		return smd_nccl_result(ret);
	}
	*listen_comm = place;
	return NCCL_SUCCESS;
}

int smd_collnet_close_listen(void *listen_comm)
{
	if (smd_nccl_lacks("closeListen", "listening comm", listen_comm)) {
		return NCCL_INVALID_ARGUMENT;
	}
	smd_agreement_unlisten(listen_comm);
	return NCCL_SUCCESS;
}

int smd_collnet_connect(void *handles[], int nranks, int rank, void *listen_comm, void **coll_comm)
{
	struct smd_error error = {""};
	struct smd_coll *coll;
	int ret;

	if (smd_nccl_lacks_any("connect", "listening comm", listen_comm, "result", coll_comm) ||
		smd_nccl_lacks("connect", "handles", handles)) {
		if (listen_comm) {
			smd_agreement_unlisten(listen_comm);
		}
		return NCCL_INVALID_ARGUMENT;
	}
	if (nranks < 1 || rank < 0 || rank >= nranks) {
		smd_nccl_log_warn("CollNet: a node must be 0 to the number of nodes - 1, got %d of %d",
			rank, nranks);
		smd_agreement_unlisten(listen_comm);
		return NCCL_INVALID_ARGUMENT;
	}
	coll = smd_coll_create((unsigned)nranks, (unsigned)rank);
	*coll_comm = NULL;
	if (!coll) {
		/* The others are told nothing and will say that this one has not come. */
		smd_agreement_unlisten(listen_comm);
		return NCCL_SYSTEM_ERROR;
	}
	ret = coll_connect(coll, handles[0], listen_comm, &error);
	coll_log(coll, ret, &error);
	if (ret) {
		smd_coll_destroy(coll);
		smd_agreement_unlisten(listen_comm);
		return smd_nccl_result(ret);
	}
	*coll_comm = coll;
	return NCCL_SUCCESS;
}
