/* Makes and ends a shard of which the test is the loop. */
#include "tests/unit/engine/bare_shard.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/engine/piece.h"

static void shard_keep(void *owner, struct smd_server_comm *comm)
{
	struct smd_shard *shard = owner;

	TAILQ_REMOVE(&shard->comms.list, comm, link);
	TAILQ_INSERT_TAIL(&shard->gone, comm, link);
}

/* What waits for memory is tried again by nobody. */
static void shard_ignores(void *owner)
{
	(void)owner;
}

void bare_shard_make(struct smd_shard *shard, size_t buffers, uint32_t chunk_bytes, unsigned window)
{
	memset(shard, 0, sizeof(*shard));
	assert_int_equal(smd_buffer_pool_create(&shard->resources.pool,
				 buffers * SMD_BUFFER_POOL_STRIDE(chunk_bytes), chunk_bytes),
		0);
	shard->config.welcome = (struct smd_welcome){
		.server_id = 1, .shards = 1, .chunk_bytes = chunk_bytes, .weight = 1000};
	shard->resources.name = "shard 0";
	shard->resources.chunk_bytes = chunk_bytes;
	shard->resources.piece_bytes = SMD_PIECE_BYTES;
	shard->resources.window = window;
	shard->resources.job_buffers = buffers;
	shard->resources.job_lanes = UINT32_MAX;
	shard->sink = malloc(chunk_bytes);
	TAILQ_INIT(&shard->peers);
	TAILQ_INIT(&shard->gone);
	TAILQ_INIT(&shard->comms.list);
	shard->comms.resources = &shard->resources;
	shard->comms.retire = shard_keep;
	shard->comms.lacks = shard_ignores;
	shard->comms.owner = shard;
}

void bare_shard_end(struct smd_shard *shard)
{
	struct smd_server_comm *comm;

	while (!TAILQ_EMPTY(&shard->peers)) {
		smd_peer_close(TAILQ_FIRST(&shard->peers), "the test is over");
	}
	assert_int_equal(shard->resources.pool.nfree, shard->resources.pool.total);
	assert_int_equal(shard->resources.pool.reserved, 0);
	while ((comm = TAILQ_FIRST(&shard->gone))) {
		TAILQ_REMOVE(&shard->gone, comm, link);
		smd_server_comm_free(comm);
	}
	smd_buffer_pool_destroy(&shard->resources.pool);
	free(shard->sink);
}
