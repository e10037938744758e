/* The tuner as each version of NCCL looks it up. */
#include "worker/nccl_plugin/collnet/tuner.h"

#include "worker/nccl_plugin/abi/loss.h"
#include "worker/nccl_plugin/abi/version.h"
#include "worker/nccl_plugin/plugin.h"

static int begin(size_t nranks, size_t nnodes, bool costs, nccl_logger *log, void **ctx)
{
	struct smd_tuner_servers servers = {.count = 0};

	if (smd_plugin_begin(log) == NCCL_SUCCESS) {
		servers = smd_plugin_servers();
	}
	*ctx = smd_tuner_open(nranks, nnodes, &servers, costs);
	return NCCL_SUCCESS;
}

static int init_v2(size_t nranks, size_t nnodes, nccl_logger *log, void **ctx)
{
	return begin(nranks, nnodes, false, log, ctx);
}

static int init_v4(size_t nranks, size_t nnodes, nccl_logger *log, void **ctx)
{
	return begin(nranks, nnodes, true, log, ctx);
}

/* NCCL 2.22 and 2.23 take v3. One that shows no version, as it is part of a program, is taken
 * for 2.23: of the two mistakes it is the one by which nobody waits for ever. */
static int init_v3(size_t nranks, size_t nnodes, nccl_logger *log, void **ctx)
{
	int version = smd_nccl_version(log);

	if (version == 0 || version >= SMD_NCCL_UNHEARD_FROM) {
		smd_loss_is_unheard();
	}
	return init_v4(nranks, nnodes, log, ctx);
}

static int init_v5(void **ctx, uint64_t comm_id, size_t nranks, size_t nnodes, nccl_logger *log,
	struct nccl_nvl_domain_v5 *domain, struct nccl_tuner_constants_v5 *constants)
{
	(void)comm_id;
	(void)domain;
	(void)constants;
	return init_v4(nranks, nnodes, log, ctx);
}

static int choose_v2(void *ctx, int function, size_t bytes, int collnet_support, int nvls_support,
	int npipe, int *algorithm, int *protocol, int *nchannels)
{
	(void)nvls_support;
	(void)npipe;
	(void)nchannels;
	if (collnet_support == 1) {
		smd_tuner_name(ctx, function, bytes, algorithm, protocol);
	}
	return NCCL_SUCCESS;
}

static int choose_v3(void *ctx, int function, size_t bytes, int npipe, float **costs,
	int nalgorithms, int nprotocols, int *nchannels)
{
	(void)npipe;
	(void)nchannels;
	smd_tuner_weigh(ctx, function, bytes, (float *)costs, nalgorithms, nprotocols);
	return NCCL_SUCCESS;
}

static int choose_v4(void *ctx, int function, size_t bytes, int npipe, float **costs,
	int nalgorithms, int nprotocols, int registered, int *nchannels)
{
	(void)registered;
	return choose_v3(ctx, function, bytes, npipe, costs, nalgorithms, nprotocols, nchannels);
}

static int destroy(void *ctx)
{
	smd_tuner_close(ctx);
	return NCCL_SUCCESS;
}

const struct nccl_tuner_v2 ncclTunerPlugin_v2 = {SMD_NCCL_NAME, init_v2, choose_v2, destroy};
const struct nccl_tuner_v3 ncclTunerPlugin_v3 = {SMD_NCCL_NAME, init_v3, choose_v3, destroy};
const struct nccl_tuner_v4 ncclTunerPlugin_v4 = {SMD_NCCL_NAME, init_v4, choose_v4, destroy};
const struct nccl_tuner_v5 ncclTunerPlugin_v5 = {SMD_NCCL_NAME, init_v5, choose_v4, destroy};
