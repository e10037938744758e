/* Listens, reads the first frame of each lane, and gives the lane to its shard. */
#include "reduction_server/engine/server.h"

#include <errno.h>
#include <event2/event.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/log.h"

#define SECOND_NS 1000000000ull

struct smd_server {
	struct event_base *base;
	const struct smd_transport_ops *transport;
	struct smd_listener *listener;
	struct event *janitor;
	struct event *ended; /* some shard has ended */
	atomic_uint nended;  /* shards that have */
	void (*on_ended)(void *owner);
	void *owner;
	char address[128];
	char *token;
	unsigned greeting_s;
	unsigned nshards;
	struct smd_shard *shards[SMD_SHARDS_MAX];
	LIST_HEAD(, greeting) greetings;
};

/* A lane that has not yet said HELLO, or was refused and has not yet gone. */
struct greeting {
	struct smd_server *server;
	struct smd_lane *lane;
	uint64_t since_ns;
	bool refused;
	uint8_t payload[SMD_CONTROL_MAX];
	LIST_ENTRY(greeting) link;
};

static void greeting_end(struct greeting *greeting)
{
	LIST_REMOVE(greeting, link);
	free(greeting);
}

static int greeting_on_header(
	void *owner, const struct smd_frame *frame, void **payload, struct smd_error *error)
{
	struct greeting *greeting = owner;

	*payload = greeting->payload;
	if (frame->kind != SMD_FRAME_HELLO || greeting->refused) {
		return smd_error_set(error, EPROTO, "the first frame must be HELLO, got %s",
			smd_frame_kind_name(frame->kind));
	}
	return 0;
}

static int greeting_refuse(struct greeting *greeting, const char *text)
{
	struct smd_frame frame = {.kind = SMD_FRAME_REFUSE};
	uint8_t payload[SMD_CONTROL_MAX];

	smd_log(SMD_LOG_WARN, "server", "refused %s: %s", smd_lane_peer_name(greeting->lane), text);
	greeting->refused = true;
	return smd_lane_send_control(
		greeting->lane, &frame, payload, smd_text_encode(text, payload));
}

static int greeting_on_frame(
	void *owner, const struct smd_frame *frame, void *payload, struct smd_error *error)
{
	struct greeting *greeting = owner;
	struct smd_server *server = greeting->server;
	struct smd_error text = {""};
	struct smd_hello hello;
	int ret = smd_hello_decode(payload, frame->length, &hello, error);

	if (ret) {
		return ret;
	}
	if (server->token && strcmp(server->token, hello.token) != 0) {
		smd_error_set(
			&text, EACCES, "%s: the job's token is not this server's", hello.replica);
		return greeting_refuse(greeting, text.text);
	}
	if (hello.shard >= server->nshards) {
		smd_error_set(&text, EINVAL, "%s: shard must be below %u, got %u", hello.replica,
			server->nshards, hello.shard);
		return greeting_refuse(greeting, text.text);
	}
	smd_lane_detach(greeting->lane);
	ret = smd_shard_give(server->shards[hello.shard], greeting->lane, &hello);
	if (ret) {
		smd_lane_close(greeting->lane);
	}
	greeting_end(greeting);
	return SMD_LANE_DETACHED;
}

static void greeting_on_closed(void *owner, int err, const char *reason)
{
	struct greeting *greeting = owner;

	smd_log(err == -EPROTO ? SMD_LOG_WARN : SMD_LOG_DEBUG, "server", "lane of %s ended: %s",
		smd_lane_peer_name(greeting->lane), reason);
	smd_lane_close(greeting->lane);
	greeting_end(greeting);
}

static const struct smd_lane_callbacks greeting_callbacks = {
	.on_header = greeting_on_header,
	.on_frame = greeting_on_frame,
	.on_closed = greeting_on_closed,
};

static void server_on_accept(void *owner, struct smd_lane *lane)
{
	struct smd_server *server = owner;
	struct greeting *greeting = calloc(1, sizeof(*greeting));

	if (!greeting || smd_lane_attach(lane, server->base, &greeting_callbacks, greeting)) {
		smd_log(SMD_LOG_ERROR, "server", "cannot take %s: out of memory",
			smd_lane_peer_name(lane));
		free(greeting);
		smd_lane_close(lane);
		return;
	}
	greeting->server = server;
	greeting->lane = lane;
	greeting->since_ns = smd_clock_ns();
	LIST_INSERT_HEAD(&server->greetings, greeting, link);
}

static void server_close_greetings(struct smd_server *server, uint64_t older_than_ns)
{
	struct greeting *greeting = LIST_FIRST(&server->greetings);

	while (greeting) {
		struct greeting *next = LIST_NEXT(greeting, link);

		if (greeting->since_ns < older_than_ns) {
			if (!greeting->refused && server->listener) {
				smd_log(SMD_LOG_WARN, "server",
					"lane of %s ended: it has said nothing for %u s",
					smd_lane_peer_name(greeting->lane), server->greeting_s);
			}
			smd_lane_close(greeting->lane);
			greeting_end(greeting);
		}
		greeting = next;
	}
}

static void server_on_janitor(evutil_socket_t fd, short what, void *arg)
{
	struct smd_server *server = arg;

	(void)fd;
	(void)what;
	server_close_greetings(server, smd_clock_ns() - server->greeting_s * SECOND_NS);
}

static void server_shard_ended(void *owner)
{
	struct smd_server *server = owner;

	atomic_fetch_add(&server->nended, 1);
	event_active(server->ended, EV_READ, 1);
}

static void server_on_ended(evutil_socket_t fd, short what, void *arg)
{
	struct smd_server *server = arg;

	(void)fd;
	(void)what;
	if (atomic_load(&server->nended) == server->nshards && server->on_ended) {
		server->on_ended(server->owner);
	}
}

static int server_start_shards(
	struct smd_server *server, const struct smd_server_config *config, struct smd_error *error)
{
	uint32_t bandwidth =
		config->bandwidth_mbps ? config->bandwidth_mbps : SMD_BANDWIDTH_DEFAULT_MBPS;
	struct smd_shard_config shard = {
		.welcome =
			{
				.shards = config->shards,
				.chunk_bytes = config->chunk_bytes ? config->chunk_bytes
								   : SMD_CHUNK_DEFAULT,
				.weight =
					bandwidth < config->shards ? 1 : bandwidth / config->shards,
			},
		.memory_bytes = config->memory_bytes / config->shards,
		.window = config->window ? config->window : SMD_WINDOW_DEFAULT,
		.late_s = config->late_s ? config->late_s : SMD_LATE_DEFAULT_S,
		.heartbeat_s =
			config->heartbeat_s ? config->heartbeat_s : SMD_HEARTBEAT_LIMIT_DEFAULT_S,
		.on_ended = server_shard_ended,
		.owner = server,
	};

	if (getrandom(&shard.welcome.server_id, sizeof(shard.welcome.server_id), 0) < 0) {
		return smd_error_set(error, errno, "server: cannot draw an identity: %m");
	}
	for (; server->nshards < config->shards; server->nshards++) {
		int ret;

		shard.welcome.shard = server->nshards;
		ret = smd_shard_start(&shard, &server->shards[server->nshards], error);
		if (ret) {
			return ret;
		}
	}
	return 0;
}

static void server_stop_shards(struct smd_server *server)
{
	for (unsigned i = 0; i < server->nshards; i++) {
		smd_shard_drain(server->shards[i], true);
		smd_shard_join(server->shards[i]);
		smd_shard_free(server->shards[i]);
	}
}

static void server_free_events(struct smd_server *server)
{
	if (server->janitor) {
		event_free(server->janitor);
	}
	if (server->ended) {
		event_free(server->ended);
	}
}

static int server_create_events(struct smd_server *server, struct event_base *base)
{
	const struct timeval second = {1, 0};

	server->janitor = event_new(base, -1, EV_PERSIST, server_on_janitor, server);
	server->ended = event_new(base, -1, EV_PERSIST, server_on_ended, server);
	return server->janitor && server->ended && event_add(server->janitor, &second) == 0
		       ? 0
		       : -ENOMEM;
}

int smd_server_start(struct event_base *base, const struct smd_server_config *config,
	struct smd_server **out, struct smd_error *error)
{
	struct smd_server *server = calloc(1, sizeof(*server));
	int ret = -ENOMEM;

	if (!server) {
		return smd_error_set(error, ENOMEM, "server: out of memory");
	}
	server->base = base;
	server->transport = config->transport;
	server->greeting_s = config->greeting_s ? config->greeting_s : SMD_GREETING_DEFAULT_S;
	server->on_ended = config->on_ended;
	server->owner = config->owner;
	LIST_INIT(&server->greetings);
	server->token = config->token ? strdup(config->token) : NULL;
	if ((config->token && !server->token) || server_create_events(server, base)) {
		smd_error_set(error, ENOMEM, "server: out of memory");
		goto free_events;
	}
	ret = server_start_shards(server, config, error);
	if (ret == 0) {
		ret = config->transport->listen(base, config->listen, server_on_accept, server,
			&server->listener, server->address, error);
	}
	if (ret) {
		goto stop_shards;
	}
	*out = server;
	return 0;

stop_shards:
	server_stop_shards(server);
free_events:
	server_free_events(server);
	free(server->token);
	free(server);
	return ret;
}

const char *smd_server_address(const struct smd_server *server)
{
	return server->address;
}

void smd_server_drain(struct smd_server *server, bool now)
{
	if (server->listener) {
		server->transport->listener_close(server->listener);
		server->listener = NULL;
	}
	server_close_greetings(server, UINT64_MAX);
	for (unsigned i = 0; i < server->nshards; i++) {
		smd_shard_drain(server->shards[i], now);
	}
}

void smd_server_join(struct smd_server *server, struct smd_shard_stats *stats)
{
	*stats = (struct smd_shard_stats){0};
	for (unsigned i = 0; i < server->nshards; i++) {
		const struct smd_shard_stats *one = &server->shards[i]->stats;

		smd_shard_join(server->shards[i]);
		stats->bytes_received += one->bytes_received;
		stats->bytes_sent += one->bytes_sent;
		stats->chunks += one->chunks;
		stats->lanes += one->lanes;
	}
}

void smd_server_free(struct smd_server *server)
{
	for (unsigned i = 0; i < server->nshards; i++) {
		smd_shard_free(server->shards[i]);
	}
	server_free_events(server);
	free(server->token);
	free(server);
}
