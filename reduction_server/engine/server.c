/* Listens, greets each lane, and gives the lane to its shard. */
#include "reduction_server/engine/server.h"

#include <errno.h>
#include <event2/event.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/log_limit.h"
#include "reduction_server/engine/piece.h"
#include "reduction_server/transport/address.h"
#include "reduction_server/transport/lane_key.h"
#include "reduction_server/transport/loop.h"

#define LANES_LEAST     96
#define GREETINGS_LEAST 16

struct smd_server {
	struct event_base *base;
	struct smd_listener *listeners[SMD_ADDRESSES_MAX * SMD_TRANSPORTS_MAX];
	unsigned nlisteners;
	bool has_devices;
	bool told_listening;
	struct smd_greeter greeter;
	struct event *janitor;
	struct smd_wakeup ended; /* some shard has */
	atomic_uint nended;      /* shards that have */
	void (*on_ended)(void *owner);
	void *owner;
	char address[SMD_ADDRESSES_TEXT_MAX];
	const struct smd_tokens *tokens;
	bool encrypt;
	struct smd_lane_keys keys;
	/* That workers come over; ends with NULL. */
	const struct smd_transport_ops *transports[SMD_TRANSPORTS_MAX + 1];
	unsigned ntransports;
	/* Lanes that are made over another's; ends with NULL. */
	const struct smd_transport_ops *pairs[SMD_TRANSPORTS_MAX + 1];
	unsigned npairs;
	bool pairs_only;
	unsigned nshards;
	struct smd_shard *shards[SMD_SHARDS_MAX];
};

/* ---- lanes ---- */

static int server_on_greeted(
	void *owner, struct smd_lane *lane, const struct smd_handshake *handshake)
{
	struct smd_server *server = owner;

	return smd_shard_give(server->shards[handshake->hello.shard], lane, handshake);
}

/* A lane that asks for a shard before it can say HELLO says that on the shard's loop, because it
 * cannot be moved there later. */
static void server_on_accept(void *owner, struct smd_lane *lane, int shard)
{
	struct smd_server *server = owner;

	if (shard == SMD_SHARD_UNKNOWN) {
		smd_greeter_take(&server->greeter, lane);
	} else if (shard < 0 || (unsigned)shard >= server->nshards) {
		smd_log_peer(SMD_LOG_WARN, "server", "",
			"refused %s: shard must be below %u, got %d", smd_lane_peer_name(lane),
			server->nshards, shard);
		smd_lane_close(lane);
	} else if (smd_shard_give(server->shards[shard], lane, NULL)) {
		smd_log_peer(SMD_LOG_ERROR, "server", "", "cannot take %s: out of memory",
			smd_lane_peer_name(lane));
		smd_lane_close(lane);
	}
}

static void server_on_janitor(evutil_socket_t fd, short what, void *arg)
{
	struct smd_server *server = arg;

	(void)fd;
	(void)what;
	smd_greeter_check(&server->greeter);
	smd_log_tell_left_out(smd_clock_ns(), 0);
}

/* ---- keys ---- */

static bool server_find_key(
	const void *owner, const char *identity, uint8_t secret[SMD_LANE_SECRET_SIZE])
{
	const struct smd_server *server = owner;
	const char *job = smd_lane_key_job(identity);
	const char *token = job ? smd_tokens_find(server->tokens, job) : NULL;
	struct smd_lane_key key;

	bool found = token && smd_lane_key_derive(&key, job, token) == 0;

	if (found) {
		memcpy(secret, key.secret, sizeof(key.secret));
		explicit_bzero(&key, sizeof(key));
	}
	return found;
}

static int server_encrypt(
	struct smd_server *server, struct smd_listener *listener, struct smd_error *error)
{
	if (!server->encrypt) {
		return 0;
	}
	if (!server->tokens || !smd_transport_can_encrypt(listener->ops)) {
		return smd_error_set(error, EINVAL, "server: %s cannot encrypt lanes%s",
			listener->ops->name, server->tokens ? "" : " without a token");
	}
	return smd_listener_encrypt(listener, &server->keys, error);
}

/* ---- shards ---- */

static void server_shard_ended(void *owner)
{
	struct smd_server *server = owner;

	atomic_fetch_add(&server->nended, 1);
	smd_wakeup_signal(&server->ended);
}

static void server_on_ended(void *owner)
{
	struct smd_server *server = owner;

	if (atomic_load(&server->nended) == server->nshards && server->on_ended) {
		server->on_ended(server->owner);
	}
}

/* As many descriptors as are allowed. */
static unsigned server_descriptors(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) != 0) {
		return LANES_LEAST;
	}
	files.rlim_cur = files.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &files);
	return files.rlim_cur > UINT_MAX ? UINT_MAX : (unsigned)files.rlim_cur;
}

/* As many lanes as a shard has descriptors for. */
static unsigned server_lanes(unsigned shards)
{
	unsigned lanes = server_descriptors() / shards;

	return lanes < LANES_LEAST ? LANES_LEAST : lanes;
}

/* An eighth of the descriptors is enough for who comes and says HELLO at once. */
static unsigned server_greetings(void)
{
	unsigned most = server_descriptors() / 8;

	return most < GREETINGS_LEAST         ? GREETINGS_LEAST
	       : most > SMD_GREETINGS_DEFAULT ? SMD_GREETINGS_DEFAULT
					      : most;
}

static int server_start_shards(
	struct smd_server *server, const struct smd_server_config *config, struct smd_error *error)
{
	uint32_t bandwidth =
		config->bandwidth_mbps ? config->bandwidth_mbps : SMD_BANDWIDTH_DEFAULT_MBPS;
	unsigned lanes = server_lanes(config->shards);
	struct smd_shard_config shard = {
		.welcome =
			{
				.shards = config->shards,
				.chunk_bytes = config->chunk_bytes ? config->chunk_bytes
								   : SMD_CHUNK_DEFAULT,
				.spare = config->spare,
				.guessed = config->guessed || !config->bandwidth_mbps,
				.weight =
					bandwidth < config->shards
						? 1
						: (bandwidth + config->shards / 2) / config->shards,
			},
		.memory_bytes = config->memory_bytes / config->shards,
		.job_memory_bytes = config->job_memory_bytes / config->shards,
		.window = config->window ? config->window : SMD_WINDOW_DEFAULT,
		.piece_bytes = config->piece_bytes ? config->piece_bytes : SMD_PIECE_BYTES,
		.late_s = config->late_s ? config->late_s : SMD_LATE_DEFAULT_S,
		.forming_s = config->forming_s ? config->forming_s : SMD_FORMING_DEFAULT_S,
		.heartbeat_ms = config->heartbeat_ms ? config->heartbeat_ms
						     : SMD_HEARTBEAT_LIMIT_DEFAULT_MS,
		.idle_s = config->idle_s ? config->idle_s : SMD_IDLE_DEFAULT_S,
		.drain_s = config->drain_s ? config->drain_s : SMD_DRAIN_DEFAULT_S,
		/* A quarter is kept for lanes that are in groups, or have not said HELLO. */
		.idle_lanes = config->idle_lanes ? config->idle_lanes : lanes / 4 * 3,
		.job_lanes = config->job_lanes ? config->job_lanes : SMD_JOB_MOST(lanes),
		.greeting_s = server->greeter.patience_s,
		.addresses = server->address,
		.transports = server->transports,
		.pairs = server->pairs,
		.pairs_only = server->pairs_only,
		.tokens = config->tokens,
		.on_ended = server_shard_ended,
		.owner = server,
	};

	if (shard.window > SMD_WINDOW_MAX) {
		return smd_error_set(error, EINVAL, "server: window must be at most %d, got %u",
			SMD_WINDOW_MAX, shard.window);
	}
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
	smd_wakeup_destroy(&server->ended);
}

static int server_create_events(struct smd_server *server, struct event_base *base)
{
	const struct timeval second = {1, 0};

	server->janitor = event_new(base, -1, EV_PERSIST, server_on_janitor, server);
	if (!server->janitor || event_add(server->janitor, &second) != 0) {
		return -ENOMEM;
	}
	return smd_wakeup_create(&server->ended, base, server_on_ended, server);
}

static int server_tell_listening(
	struct smd_server *server, const struct smd_server_config *config, struct smd_error *error)
{
	if (server->told_listening || !config->on_listening) {
		return 0;
	}
	server->told_listening = true;
	return config->on_listening(config->owner, error);
}

static bool server_listens_on(const struct smd_server *server, const struct smd_transport_ops *ops)
{
	for (unsigned i = 0; i < server->nlisteners; i++) {
		if (server->listeners[i]->ops == ops) {
			return true;
		}
	}
	return false;
}

/* At all addresses. The first finds the ports if those are open; the others listen at the same. */
static int server_listen_on(struct smd_server *server, const struct smd_server_config *config,
	const struct smd_transport_ops *ops, struct smd_error *error)
{
	const char *addresses = *server->address ? server->address : config->listen;
	char found[SMD_ADDRESSES_TEXT_MAX] = "";
	char address[SMD_ADDRESS_LONGEST];
	size_t length = 0;

	for (unsigned i = 0; smd_addresses_get(addresses, i, address); i++) {
		struct smd_listener **listener = &server->listeners[server->nlisteners];
		char bound[128];
		int ret = ops->listen(
			server->base, address, server_on_accept, server, listener, bound, error);

		if (ret) {
			return ret;
		}
		server->nlisteners++;
		length += (size_t)snprintf(
			found + length, sizeof(found) - length, "%s%s", i ? "+" : "", bound);
		ret = server_encrypt(server, *listener, error);
		if (ret) {
			return ret;
		}
	}
	if (!*server->address) {
		memcpy(server->address, found, sizeof(found));
	}
	return 0;
}

/* Whether lanes can be made over a carrier at one of the addresses. */
static int server_check(
	const char *addresses, const struct smd_transport_ops *ops, struct smd_error *error)
{
	char address[SMD_ADDRESS_LONGEST];
	int ret = -EADDRNOTAVAIL;

	for (unsigned i = 0; ret && smd_addresses_get(addresses, i, address); i++) {
		ret = ops->check(address, error);
	}
	return ret;
}

/* Its lanes are made over those of a carrier, which must be listened on. */
static int server_listen_carried(struct smd_server *server, const struct smd_server_config *config,
	const struct smd_transport_ops *ops, const struct smd_transport_ops *carrier,
	struct smd_error *error)
{
	int ret = server_check(config->listen, ops, error);

	if (ret == 0 && !server_listens_on(server, carrier)) {
		ret = server_listen_on(server, config, carrier, error);
		server->pairs_only = ret == 0;
	}
	if (ret == 0) {
		server->pairs[server->npairs++] = ops;
	}
	return ret;
}

/*
 * The kernel takes no word for a device from who has other rights than when it was opened, so those
 * without come first.
 */
static int server_listen(
	struct smd_server *server, const struct smd_server_config *config, struct smd_error *error)
{
	for (unsigned i = 0; i < SMD_TRANSPORTS_MAX && config->transports[i].ops; i++) {
		const struct smd_server_transport *wanted = &config->transports[i];
		const struct smd_transport_ops *carrier =
			server->encrypt ? NULL : smd_transport_carrier(wanted->ops);
		struct smd_error why = {""};
		int ret = 0;

		if (wanted->ops->device) {
			ret = server_tell_listening(server, config, error);
		}
		if (ret) {
			return ret;
		}
		ret = carrier ? server_listen_carried(server, config, wanted->ops, carrier, &why)
			      : server_listen_on(server, config, wanted->ops, &why);
		if (ret && wanted->needed) {
			return smd_error_set(error, -ret, "%s", why.text);
		}
		if (ret) {
			smd_log(SMD_LOG_INFO, "server", "no workers over %s: %s", wanted->ops->name,
				why.text);
			continue;
		}
		server->transports[server->ntransports++] = wanted->ops;
		server->has_devices |= wanted->ops->device != NULL;
	}
	return 0;
}

static void server_stop_listening(struct smd_server *server)
{
	while (server->nlisteners) {
		smd_listener_close(server->listeners[--server->nlisteners]);
	}
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
	server->on_ended = config->on_ended;
	server->owner = config->owner;
	server->tokens = config->tokens;
	server->encrypt = config->encrypt;
	server->keys = (struct smd_lane_keys){.find = server_find_key, .owner = server};
	server->greeter = (struct smd_greeter){
		.base = base,
		.name = "server",
		.tokens = config->tokens,
		.nshards = config->shards,
		.shard = SMD_SHARD_UNKNOWN,
		.patience_s = config->greeting_s ? config->greeting_s : SMD_GREETING_DEFAULT_S,
		.most = server_greetings(),
		.on_greeted = server_on_greeted,
		.owner = server,
	};
	if (server_create_events(server, base) || (config->tokens && smd_handshake_prepare())) {
		smd_error_set(error, ENOMEM, "server: out of memory");
		goto free_events;
	}
	/* No lane is taken before the loop turns, so the shards may start later. */
	ret = server_listen(server, config, error);
	if (ret == 0) {
		ret = server_tell_listening(server, config, error);
	}
	if (ret == 0) {
		ret = server_start_shards(server, config, error);
	}
	if (ret) {
		goto stop_listening;
	}
	*out = server;
	return 0;

stop_listening:
	server_stop_listening(server);
	server_stop_shards(server);
free_events:
	server_free_events(server);
	free(server);
	return ret;
}

bool smd_server_has_devices(const struct smd_server *server)
{
	return server->has_devices;
}

const char *smd_server_address(const struct smd_server *server)
{
	return server->address;
}

unsigned smd_server_shards(const struct smd_server *server)
{
	return server->nshards;
}

void smd_server_read_figures(
	const struct smd_server *server, unsigned shard, struct smd_shard_figures *out)
{
	smd_shard_read_figures(server->shards[shard], out);
}

void smd_server_drain(struct smd_server *server, bool now)
{
	server_stop_listening(server);
	smd_greeter_close(&server->greeter);
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
		smd_lane_counts_add(&stats->moved, &one->moved);
		stats->chunks += one->chunks;
		stats->lanes += one->lanes;
	}
	smd_log_tell_left_out(smd_clock_ns(), 1);
}

void smd_server_free(struct smd_server *server)
{
	for (unsigned i = 0; i < server->nshards; i++) {
		smd_shard_free(server->shards[i]);
	}
	server_free_events(server);
	free(server);
}
