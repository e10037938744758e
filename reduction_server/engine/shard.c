/* Runs one shard's event loop. */
#include "reduction_server/engine/shard.h"

#include <errno.h>
#include <event2/event.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/log_limit.h"
#include "reduction_server/base/thread.h"
#include "reduction_server/engine/join.h"
#include "reduction_server/engine/lateness.h"
#include "reduction_server/engine/window.h"

/*
 * While the parts of a small operation are awaited the loop is turned without sleeping for so long
 * after the last one came, because to be woken costs more than the operation. Each idle turn lets
 * others run.
 */
#define SPIN_NS        50000u
#define RETRY_US       10000 /* until windows have given way */
#define LEAVE_S        1     /* for those who hear that the time to drain is over */
#define POLL_LANES_MAX 8  /* to ask the loop about more lanes is cheaper than to poll each */
#define POLLS_PER_TURN 16 /* the loop knows of other things, too */

static void shard_stop(struct smd_shard *shard)
{
	shard->ended = true;
	event_base_loopbreak(shard->base);
}

void smd_shard_check_drained(struct smd_shard *shard)
{
	if (!shard->comms.draining || !TAILQ_EMPTY(&shard->comms.list)) {
		return;
	}
	if (!shard->tells_end || TAILQ_EMPTY(&shard->peers)) {
		shard_stop(shard);
	}
}

/* ---- the end ---- */

/* Not at the janitor's next look: that may be a second late. */
static void shard_set_end(struct smd_shard *shard, unsigned seconds)
{
	const struct timeval left = {seconds, 0};

	if (evtimer_add(shard->end, &left) != 0) {
		shard_stop(shard); /* nobody would end it */
	}
}

/* Those who hear of it go by themselves, and then it ends sooner. */
static void shard_on_end(evutil_socket_t fd, short what, void *arg)
{
	struct smd_shard *shard = arg;

	(void)fd;
	(void)what;
	if (shard->tells_end) {
		shard_stop(shard);
		return;
	}
	shard->tells_end = true;
	shard_set_end(shard, LEAVE_S);
	smd_server_comms_end(&shard->comms, shard->config.drain_s);
}

/* ---- the inbox ---- */

static int shard_on_paired(
	void *owner, struct smd_lane *lane, const struct smd_handshake *handshake)
{
	smd_peers_make_room(owner);
	return smd_peer_create(owner, lane, handshake);
}

static int shard_on_greeted(
	void *owner, struct smd_lane *lane, const struct smd_handshake *handshake)
{
	struct smd_shard *shard = owner;

	smd_pairer_take(&shard->pairer, lane, handshake);
	return 0;
}

static void shard_admit(struct smd_shard *shard, struct smd_arrival *arrival)
{
	if (arrival->greeted) {
		smd_pairer_take(&shard->pairer, arrival->lane, &arrival->handshake);
	} else if (shard->comms.draining) {
		smd_lane_close(arrival->lane);
	} else {
		smd_greeter_take(&shard->greeter, arrival->lane);
	}
	free(arrival);
}

static void shard_on_inbox(void *owner)
{
	struct smd_shard *shard = owner;
	bool drain;
	bool stop;

	if (shard->ended) {
		return; /* nothing may keep the last turn from its end */
	}
	for (;;) {
		struct smd_arrival *arrival;

		pthread_mutex_lock(&shard->inbox.lock);
		arrival = STAILQ_FIRST(&shard->inbox.arrivals);
		if (arrival) {
			STAILQ_REMOVE_HEAD(&shard->inbox.arrivals, link);
		}
		drain = shard->inbox.drain;
		stop = shard->inbox.stop;
		pthread_mutex_unlock(&shard->inbox.lock);
		if (!arrival) {
			break;
		}
		shard_admit(shard, arrival);
	}
	if (drain) {
		if (!shard->comms.draining) {
			shard_set_end(shard, shard->config.drain_s);
			smd_peers_tell_drains(shard);
		}
		smd_server_comms_drain(&shard->comms);
		smd_greeter_close(&shard->greeter);
		smd_pairer_close(&shard->pairer);
		smd_shard_check_drained(shard);
	}
	if (stop) {
		shard_stop(shard);
	}
}

int smd_shard_give(
	struct smd_shard *shard, struct smd_lane *lane, const struct smd_handshake *handshake)
{
	struct smd_arrival *arrival = calloc(1, sizeof(*arrival));

	if (!arrival) {
		return -ENOMEM;
	}
	arrival->lane = lane;
	arrival->greeted = handshake != NULL;
	if (handshake) {
		arrival->handshake = *handshake;
	}
	pthread_mutex_lock(&shard->inbox.lock);
	STAILQ_INSERT_TAIL(&shard->inbox.arrivals, arrival, link);
	pthread_mutex_unlock(&shard->inbox.lock);
	smd_wakeup_signal(&shard->inbox.wakeup);
	return 0;
}

void smd_shard_drain(struct smd_shard *shard, bool now)
{
	pthread_mutex_lock(&shard->inbox.lock);
	shard->inbox.drain = true;
	shard->inbox.stop = now;
	pthread_mutex_unlock(&shard->inbox.lock);
	smd_wakeup_signal(&shard->inbox.wakeup);
}

/* ---- communicators ---- */

/* Its callers may still look at the communicator, so it is freed on a later turn. */
static void shard_retire(void *owner, struct smd_server_comm *comm)
{
	struct smd_shard *shard = owner;

	TAILQ_REMOVE(&shard->comms.list, comm, link);
	TAILQ_INSERT_TAIL(&shard->gone, comm, link);
	event_active(shard->reaper, EV_READ, 1);
	smd_shard_check_drained(shard);
}

static void shard_on_reap(evutil_socket_t fd, short what, void *arg)
{
	struct smd_shard *shard = arg;

	(void)fd;
	(void)what;
	while (!TAILQ_EMPTY(&shard->gone)) {
		struct smd_server_comm *comm = TAILQ_FIRST(&shard->gone);

		TAILQ_REMOVE(&shard->gone, comm, link);
		smd_server_comm_free(comm);
	}
}

static void shard_publish(struct smd_shard *shard, uint64_t now)
{
	struct smd_shard_figures figures = {
		.moved = shard->stats.moved,
		.lanes_ever = shard->stats.lanes,
		.lanes = shard->npeers,
		.weight = shard->config.welcome.weight,
	};
	const struct smd_peer *peer;

	TAILQ_FOREACH (peer, &shard->peers, link) {
		smd_lane_counts_add(&figures.moved, &peer->lane->counts);
	}
	smd_figures_add_comms(&figures, &shard->comms, now);
	smd_figures_publish(&shard->published, &figures);
}

void smd_shard_read_figures(struct smd_shard *shard, struct smd_shard_figures *out)
{
	smd_figures_read(&shard->published, out);
}

/* As long as it may take a rank to find that a server is silent, and to say so. */
static uint64_t shard_patience_ns(const struct smd_shard *shard)
{
	return (2ull * shard->config.heartbeat_ms + 1000) * 1000000;
}

static void shard_on_janitor(evutil_socket_t fd, short what, void *arg)
{
	struct smd_shard *shard = arg;
	uint64_t now = smd_clock_ns();
	struct smd_peer *peer = TAILQ_FIRST(&shard->peers);
	struct smd_server_comm *comm = TAILQ_FIRST(&shard->comms.list);

	(void)fd;
	(void)what;
	smd_greeter_check(&shard->greeter);
	smd_windows_shrink_idle(&shard->comms);
	while (comm) {
		struct smd_server_comm *next = TAILQ_NEXT(comm, link);

		if (shard->config.welcome.shard == 0) { /* the others do not hear what ranks agree on */
			smd_server_comm_check_servers(comm, now, shard_patience_ns(shard));
		}
		smd_server_comm_check_late(comm, now); /* both may end it */
		comm = next;
	}
	while (peer) {
		struct smd_peer *next = TAILQ_NEXT(peer, link);

		smd_peer_check_alive(peer, now); /* may end it */
		peer = next;
	}
	shard_publish(shard, now);
}

static void shard_lacks(void *owner)
{
	static const struct timeval soon = {0, RETRY_US};
	struct smd_shard *shard = owner;

	if (!evtimer_pending(shard->retry, NULL)) {
		evtimer_add(shard->retry, &soon);
	}
}

static void shard_on_retry(evutil_socket_t fd, short what, void *arg)
{
	struct smd_shard *shard = arg;

	(void)fd;
	(void)what;
	if (smd_server_comms_retry(&shard->comms)) {
		shard_lacks(shard);
	}
}

/* ---- the thread ---- */

/* Those that were stopped before they had ended. Their ranks hear why. */
static void shard_stop_comms(struct smd_shard *shard)
{
	struct smd_peer *peer;

	TAILQ_FOREACH (peer, &shard->peers, link) {
		peer->lane->parts = peer->in_groups > 0;
	}
	smd_server_comms_stop(&shard->comms);
}

/* Those with chunks that are on their way. */
static void shard_abandon_comms(struct smd_shard *shard)
{
	struct smd_server_comm *comm = TAILQ_FIRST(&shard->comms.list);

	while (comm) {
		struct smd_server_comm *next = TAILQ_NEXT(comm, link);

		smd_server_comm_abandon(
			comm); /* goes to another list, at once or when its slots have drained */
		comm = next;
	}
}

/* Some communicator has a chunk that is not yet with all of its ranks. */
static bool shard_has_work(const struct smd_shard *shard)
{
	return shard->resources.busy_slots > 0;
}

/* Takes what has come from every peer; false when the loop must be asked, because they are many. */
static bool shard_poll(struct smd_shard *shard)
{
	struct smd_lane *lanes[POLL_LANES_MAX];
	struct smd_peer *peer;
	unsigned n = 0;

	TAILQ_FOREACH (peer, &shard->peers, link) {
		if (n == POLL_LANES_MAX) {
			return false;
		}
		lanes[n++] = peer->lane;
	}
	/* A lane that is closed while another is looked at keeps its memory until the loop turns.
	 */
	for (unsigned i = 0; i < n; i++) {
		if (!smd_lane_poll(lanes[i])) {
			return false;
		}
	}
	return true;
}

static void shard_turn_loop(struct smd_shard *shard)
{
	uint64_t frames = shard->small_frames;
	uint64_t last_ns = 0;
	unsigned polls = 0;

	while (!shard->ended) {
		uint64_t now = shard_has_work(shard) ? smd_clock_ns() : 0;

		if (shard->small_frames != frames) {
			frames = shard->small_frames;
			last_ns = now;
		}
		if (now == 0 || now - last_ns > SPIN_NS) {
			event_base_loop(shard->base, EVLOOP_ONCE);
			continue;
		}
		if (++polls % POLLS_PER_TURN == 0 || !shard_poll(shard)) {
			smd_loop_look(shard->base);
		}
		if (shard->small_frames == frames) {
			sched_yield();
		}
	}
}

/* Before there is work that would have to wait for it. */
static void shard_prepare(struct smd_shard *shard)
{
	const struct smd_extent pool = {shard->resources.pool.pages.memory,
		smd_buffer_pool_bytes(&shard->resources.pool)};

	for (unsigned i = 0; shard->config.transports[i]; i++) {
		const struct smd_transport_ops *ops = shard->config.transports[i];

		if (ops->prepare) {
			ops->prepare(shard->base, shard->config.addresses,
				shard->config.welcome.shard, pool,
				shard->config.welcome.chunk_bytes);
		}
	}
}

static void *shard_main(void *arg)
{
	struct smd_shard *shard = arg;

	shard_prepare(shard);
	shard_turn_loop(shard);
	smd_greeter_close(&shard->greeter);
	smd_pairer_close(&shard->pairer);
	shard_stop_comms(shard);
	shard_abandon_comms(shard);
	while (!TAILQ_EMPTY(&shard->peers)) {
		smd_peer_close(TAILQ_FIRST(&shard->peers), "the reduction server ended");
	}
	smd_transport_end_loop(shard->base); /* what has still to be said */
	/* One more turn, for what is freed at the end of a turn. */
	event_base_loop(shard->base, EVLOOP_NONBLOCK);
	shard->stats.chunks = shard->resources.chunks;
	shard->config.on_ended(shard->config.owner);
	return NULL;
}

static int shard_create_events(struct smd_shard *shard)
{
	unsigned period_ms = smd_heartbeat_period_ms(shard->config.heartbeat_ms);
	const struct timeval period = {period_ms / 1000, period_ms % 1000 * 1000};

	shard->base = smd_loop_create();
	if (!shard->base) {
		return -ENOMEM;
	}
	shard->janitor = event_new(shard->base, -1, EV_PERSIST, shard_on_janitor, shard);
	shard->reaper = event_new(shard->base, -1, EV_PERSIST, shard_on_reap, shard);
	shard->retry = evtimer_new(shard->base, shard_on_retry, shard);
	shard->end = evtimer_new(shard->base, shard_on_end, shard);
	if (!shard->janitor || !shard->reaper || !shard->retry || !shard->end ||
		event_add(shard->janitor, &period) != 0) {
		return -ENOMEM;
	}
	return smd_wakeup_create(&shard->inbox.wakeup, shard->base, shard_on_inbox, shard);
}

static void shard_destroy_events(struct smd_shard *shard)
{
	struct event *events[] = {shard->janitor, shard->reaper, shard->retry, shard->end};

	smd_wakeup_destroy(&shard->inbox.wakeup);
	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
		if (events[i]) {
			event_free(events[i]);
		}
	}
	if (shard->base) {
		smd_loop_free(shard->base);
	}
}

int smd_shard_start(
	const struct smd_shard_config *config, struct smd_shard **out, struct smd_error *error)
{
	struct smd_shard *shard = calloc(1, sizeof(*shard));
	int ret;

	if (!shard) {
		return smd_error_set(error, ENOMEM, "shard: out of memory");
	}
	shard->config = *config;
	snprintf(shard->name, sizeof(shard->name), "shard %u", config->welcome.shard);
	TAILQ_INIT(&shard->peers);
	shard->resources.name = shard->name;
	shard->resources.chunk_bytes = config->welcome.chunk_bytes;
	shard->resources.piece_bytes = config->piece_bytes;
	shard->resources.window = config->window;
	shard->resources.late_s = config->late_s;
	shard->resources.forming_s = config->forming_s;
	shard->resources.job_lanes = config->job_lanes;
	TAILQ_INIT(&shard->comms.list);
	shard->comms.resources = &shard->resources;
	shard->comms.retire = shard_retire;
	shard->comms.lacks = shard_lacks;
	shard->comms.owner = shard;
	TAILQ_INIT(&shard->gone);
	STAILQ_INIT(&shard->inbox.arrivals);
	pthread_mutex_init(&shard->inbox.lock, NULL);
	smd_figures_open(&shard->published);
	ret = smd_buffer_pool_create(
		&shard->resources.pool, config->memory_bytes, config->welcome.chunk_bytes);
	if (ret) {
		smd_error_set(error, -ret, "%s: cannot map %zu bytes for slots", shard->name,
			config->memory_bytes);
		goto free_shard;
	}
	smd_log(SMD_LOG_DEBUG, "server", "%s: %zu MiB for slots in %s", shard->name,
		smd_buffer_pool_bytes(&shard->resources.pool) >> 20,
		smd_pages_name(shard->resources.pool.pages.kind));
	shard->resources.job_buffers =
		config->job_memory_bytes
			? config->job_memory_bytes /
				  SMD_BUFFER_POOL_STRIDE(config->welcome.chunk_bytes)
			: SMD_JOB_MOST(shard->resources.pool.total);
	ret = -ENOMEM;
	shard->sink = malloc(SMD_CHUNK_LIMIT);
	if (!shard->sink || shard_create_events(shard)) {
		smd_error_set(error, ENOMEM, "%s: out of memory", shard->name);
		goto destroy_events;
	}
	shard->greeter = (struct smd_greeter){
		.base = shard->base,
		.name = shard->name,
		.tokens = config->tokens,
		.nshards = config->welcome.shards,
		.shard = (int)config->welcome.shard,
		.patience_s = config->greeting_s,
		.on_greeted = shard_on_greeted,
		.owner = shard,
	};
	shard->pairer = (struct smd_pairer){
		.base = shard->base,
		.name = shard->name,
		.shard = config->welcome.shard,
		.pairs = config->pairs,
		.needed = config->pairs_only,
		.tokens = config->tokens,
		.on_paired = shard_on_paired,
		.owner = shard,
	};
	shard_publish(shard, smd_clock_ns()); /* what is known before there is anything to count */
	ret = smd_thread_start(&shard->thread, NULL, shard_main, shard);
	if (ret) {
		smd_error_set(
			error, -ret, "%s: cannot start a thread: %s", shard->name, strerror(-ret));
		goto destroy_events;
	}
	*out = shard;
	return 0;

destroy_events:
	shard_destroy_events(shard);
	free(shard->sink);
	smd_buffer_pool_destroy(&shard->resources.pool);
free_shard:
	smd_figures_close(&shard->published);
	pthread_mutex_destroy(&shard->inbox.lock);
	free(shard);
	return ret;
}

void smd_shard_join(struct smd_shard *shard)
{
	pthread_join(shard->thread, NULL);
}

void smd_shard_free(struct smd_shard *shard)
{
	while (!STAILQ_EMPTY(&shard->inbox.arrivals)) {
		struct smd_arrival *arrival = STAILQ_FIRST(&shard->inbox.arrivals);

		STAILQ_REMOVE_HEAD(&shard->inbox.arrivals, link);
		smd_lane_close(arrival->lane);
		free(arrival);
	}
	shard_destroy_events(shard);
	free(shard->sink);
	smd_buffer_pool_destroy(&shard->resources.pool);
	smd_figures_close(&shard->published);
	pthread_mutex_destroy(&shard->inbox.lock);
	free(shard);
}
