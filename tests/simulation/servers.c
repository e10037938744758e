/* Starts reduction servers, and runs them until they have ended. */
#include "tests/simulation/servers.h"

#include <event2/event.h>
#include <stdio.h>

#include "reduction_server/engine/server.h"
#include "tests/simulation/virtual_time.h"

static unsigned server_process(unsigned life)
{
	return 1 + life + (life < SERVERS_MAX ? 0 : RANKS_MAX);
}

unsigned rank_process(int rank)
{
	return 1 + SERVERS_MAX + (unsigned)rank;
}

bool server_is_there(const struct simulated_server *server)
{
	return server->listening && !server->ended && !server->lost;
}

static void on_ask(void *owner)
{
	struct simulated_server *one = owner;

	smd_server_drain(one->server, false);
}

static void on_ended(void *owner)
{
	struct simulated_server *one = owner;

	event_base_loopbreak(one->base);
}

static void *serve(void *arg)
{
	struct simulated_server *one = arg;
	char listen[32];
	const struct smd_server_config config = {
		.transports = {{smd_transport_find("fault"), true}},
		.listen = listen,
		.shards = world.plan.shards,
		.memory_bytes = world.plan.memory_bytes,
		.chunk_bytes = world.plan.chunk_bytes,
		.window = world.plan.window,
		.piece_bytes = 64,
		.heartbeat_ms = world.plan.heartbeat_ms,
		.spare = world.plan.spare >> one->index & 1,
		.on_ended = on_ended,
		.owner = one,
	};
	struct smd_shard_stats stats;
	struct smd_error error;

	snprintf(listen, sizeof(listen), "loopback:%u", one->index);
	one->base = event_base_new();
	if (smd_wakeup_create(&one->ask, one->base, on_ask, one) ||
		smd_server_start(one->base, &config, &one->server, &error)) {
		world_fail("a server cannot start");
	}
	one->listening = true;
	event_base_loop(one->base, EVLOOP_NO_EXIT_ON_EMPTY);
	smd_server_join(one->server, &stats);
	event_base_loop(one->base, EVLOOP_NONBLOCK);
	smd_wakeup_destroy(&one->ask);
	smd_server_free(one->server);
	smd_loop_free(one->base);
	one->ended = true;
	return NULL;
}

void start_server(unsigned index)
{
	struct simulated_server *one = &world.lives[world.nlives];

	one->index = index;
	one->since_ns = virtual_now_ns();
	one->process = server_process(world.nlives++);
	world.servers[index] = one;
	one->thread = virtual_start(one->process, serve, one);
}
