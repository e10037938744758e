/* summand-reduction-server: sums the gradients of workers and sends the sums back. */
#include <errno.h>
#include <event2/event.h>
#include <event2/thread.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "reduction_server/base/log.h"
#include "reduction_server/base/token.h"
#include "reduction_server/engine/memory.h"
#include "reduction_server/engine/server.h"
#include "reduction_server/kernels/kernels.h"
#include "reduction_server/metrics/endpoint.h"
#include "reduction_server/sandbox/privileges.h"
#include "reduction_server/sandbox/system_calls.h"
#include "reduction_server/server_metrics.h"
#include "reduction_server/server_options.h"
#include "reduction_server/server_reports.h"
#include "reduction_server/transport/address.h"
#include "reduction_server/transport/bandwidth.h"
#include "reduction_server/transport/locality.h"
#include "reduction_server/transport/loop.h"

#define EXIT_USAGE     2
#define PROCESSORS_MAX 8192
#define NOTIFY_FD      "SUMMAND_NOTIFY_FD"

struct program {
	struct event_base *base;
	struct smd_server *server;
	struct smd_metrics_endpoint *metrics; /* NULL: none */
	struct smd_server_reports *reports;   /* NULL: nobody reads them */
	struct smd_tokens tokens;
	const struct smd_user *user; /* who it becomes */
	FILE *notify;                /* --ready-fd, or NULL */
	int signal_fd;               /* signals to end come by it, or -1 */
	struct event *signalled;
	int asked;                   /* how often it was asked to end */
};

static int open_notify(const char *text, FILE **out, struct smd_error *error)
{
	char *end;
	long fd;

	*out = NULL;
	if (!text) {
		return 0;
	}
	fd = strtol(text, &end, 10);
	if (*text == '\0' || *end || fd < 0 || !(*out = fdopen((int)fd, "w"))) {
		return smd_error_set(
			error, EINVAL, "--ready-fd: must be an open descriptor, got \"%s\"", text);
	}
	return 0;
}

/* A job's runner reads its pipe to the end; who gave --ready-fd may read no more than one line. */
static int is_replica(const struct smd_server_options *options)
{
	return options->ready_fd && options->ready_fd == getenv(NOTIFY_FD);
}

/* One line for whoever started us, on standard output or the notify descriptor. */
static void announce_ready(struct program *program)
{
	FILE *streams[] = {stdout, program->notify};

	for (size_t i = 0; i < 2; i++) {
		if (streams[i]) {
			fprintf(streams[i], "ready %s\n", smd_server_address(program->server));
			fflush(streams[i]);
		}
	}
}

static void announce_results(struct program *program, const struct smd_shard_stats *stats)
{
	smd_log(SMD_LOG_INFO, "server",
		"ended: %" PRIu64 " chunks reduced, %" PRIu64 " bytes received, %" PRIu64
		" bytes sent, %" PRIu64 " lanes",
		stats->chunks, stats->moved.bytes_received, stats->moved.bytes_sent, stats->lanes);
	if (stats->moved.doorbells) {
		smd_log(SMD_LOG_INFO, "server",
			"over RDMA: %" PRIu64 " work requests in %" PRIu64 " doorbells, %.1f each",
			stats->moved.requests, stats->moved.doorbells,
			(double)stats->moved.requests / (double)stats->moved.doorbells);
	}
	if (program->notify) {
		fprintf(program->notify,
			"result bytes_received %" PRIu64 "\nresult bytes_sent %" PRIu64
			"\nresult chunks %" PRIu64 "\n",
			stats->moved.bytes_received, stats->moved.bytes_sent, stats->chunks);
		fflush(program->notify);
	}
}

static void on_signal(evutil_socket_t fd, short what, void *arg)
{
	struct program *program = arg;
	struct signalfd_siginfo info;

	(void)what;
	while (read(fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		program->asked++;
		smd_log(SMD_LOG_INFO, "server", "%s: %s", strsignal((int)info.ssi_signo),
			program->asked == 1 ? "draining" : "ending at once");
		smd_server_drain(program->server, program->asked > 1);
	}
}

/* No other thread takes them (base/thread.h). */
static int watch_signals(struct program *program)
{
	sigset_t watched;

	sigemptyset(&watched);
	sigaddset(&watched, SIGTERM);
	sigaddset(&watched, SIGINT);
	pthread_sigmask(SIG_BLOCK, &watched, NULL); /* others run by now */
	program->signal_fd = signalfd(-1, &watched, SFD_NONBLOCK | SFD_CLOEXEC);
	if (program->signal_fd < 0) {
		return -errno;
	}
	program->signalled = event_new(
		program->base, program->signal_fd, EV_READ | EV_PERSIST, on_signal, program);
	return program->signalled && event_add(program->signalled, NULL) == 0 ? 0 : -ENOMEM;
}

static void unwatch_signals(struct program *program)
{
	if (program->signalled) {
		event_free(program->signalled);
	}
	if (program->signal_fd >= 0) {
		close(program->signal_fd);
	}
}

static void on_ended(void *owner)
{
	struct program *program = owner;

	event_base_loopbreak(program->base);
}

/* The processors that this process may use. */
static unsigned count_processors(void)
{
	cpu_set_t *set = CPU_ALLOC(PROCESSORS_MAX);
	size_t size = CPU_ALLOC_SIZE(PROCESSORS_MAX);
	long count = sysconf(_SC_NPROCESSORS_ONLN);

	if (set && sched_getaffinity(0, size, set) == 0) {
		count = CPU_COUNT_S(size, set);
	}
	CPU_FREE(set);
	return count > 0 ? (unsigned)count : 1;
}

static uint32_t share_of(uint32_t mbps, const struct smd_share *share)
{
	uint64_t part = (uint64_t)mbps * share->part;
	uint64_t declared = (part + share->whole / 2) / share->whole;

	declared = declared > SMD_SERVER_BANDWIDTH_MOST_MBPS ? SMD_SERVER_BANDWIDTH_MOST_MBPS
							     : declared;
	return declared > 0 ? (uint32_t)declared : 1;
}

/*
 * Half of a window, in proportion. With as many chunks under way as servers with whole links have,
 * reducers would get theirs first, and those servers the rest last, with their links idle
 * meanwhile. More than half a share has only who is beside no such server.
 */
static unsigned share_window(const struct smd_share *share)
{
	uint64_t half = SMD_WINDOW_DEFAULT / 2;

	if (2 * (uint64_t)share->part > share->whole) {
		return SMD_WINDOW_DEFAULT;
	}
	return (unsigned)((half * share->part + share->whole - 1) / share->whole);
}

/* What the link carries: of the first transport that has devices of its own for it, or as the
 * network interface says. */
static uint32_t read_bandwidth(const struct smd_server_options *options,
	const struct smd_server_config *config, char source[SMD_BANDWIDTH_SOURCE_MAX])
{
	uint32_t mbps = 0;

	for (unsigned i = 0; !mbps && i < SMD_TRANSPORTS_MAX && config->transports[i].ops; i++) {
		const struct smd_transport_ops *ops = config->transports[i].ops;

		mbps = ops->rate ? ops->rate(options->listen, (unsigned)options->threads, source,
					   SMD_BANDWIDTH_SOURCE_MAX)
				 : 0;
	}
	return mbps ? mbps : smd_bandwidth_read(options->listen, "", source);
}

static void settle(const struct smd_server_options *options, const struct smd_server_config *config)
{
	const struct smd_transport_ops *transports[SMD_TRANSPORTS_MAX];
	struct smd_locality_ways ways = {.transports = transports};

	while (ways.ntransports < SMD_TRANSPORTS_MAX && config->transports[ways.ntransports].ops) {
		transports[ways.ntransports] = config->transports[ways.ntransports].ops;
		ways.ntransports++;
	}
	smd_locality_settle(&ways, options->listen, (unsigned)options->threads, options->pins);
}

/* mbps 0: not known. */
static unsigned decide_shards(const struct smd_server_options *options,
	const struct smd_server_config *config, uint32_t mbps)
{
	const bool by_card = smd_transport_can_advertise(config->transports[0].ops) &&
			     !config->transports[1].ops;
	unsigned shards = options->threads ? (unsigned)options->threads
					   : smd_bandwidth_shards(mbps, by_card, count_processors(),
						     smd_addresses_count(options->listen));

	return shards < SMD_SHARDS_MAX ? shards : SMD_SHARDS_MAX;
}

/* Bandwidth and shards: as given, or as there is. */
static void decide_speed(const struct smd_server_options *options, struct smd_server_config *config)
{
	char source[SMD_BANDWIDTH_SOURCE_MAX] = "as given";
	uint32_t mbps =
		(uint32_t)options->bandwidth_mbps; /* smd_server_options_check() has seen it */

	if (mbps == 0) {
		mbps = read_bandwidth(options, config, source);
	}
	config->guessed = mbps == 0;
	config->bandwidth_mbps = mbps ? mbps : SMD_BANDWIDTH_DEFAULT_MBPS;
	smd_log(SMD_LOG_INFO, "server", "bandwidth: %u Mbit/s, %s", config->bandwidth_mbps, source);
	if (options->link.part != options->link.whole) {
		config->bandwidth_mbps = share_of(config->bandwidth_mbps, &options->link);
		mbps = mbps ? config->bandwidth_mbps : 0;
		smd_log(SMD_LOG_INFO, "server", "bandwidth: %u/%u of that, %u Mbit/s",
			options->link.part, options->link.whole, config->bandwidth_mbps);
	}
	config->shards = decide_shards(options, config, mbps);
	if (options->share.part != options->share.whole) { /* workers on the host leave no more */
		config->bandwidth_mbps = share_of(config->bandwidth_mbps, &options->share);
		config->window = share_window(&options->share);
		smd_log(SMD_LOG_INFO, "server",
			"share of chunks: %u/%u of that, as for %u Mbit/s, with a window of %u",
			options->share.part, options->share.whole, config->bandwidth_mbps,
			config->window);
	}
	config->spare = options->spare;
}

/* Those of lower places are listened on first: what carries others, then what every host has, then
 * what needs devices. */
static unsigned place_of(const struct smd_transport_ops *ops)
{
	return ops->device ? 2 : smd_transport_carrier(ops) ? 1 : 0;
}

/*
 * Transports that every host has and that need no other come first and must be there, the others
 * where they can be had; one that was named must be there.
 */
static void choose_transports(
	const struct smd_server_options *options, struct smd_server_transport transports[])
{
	const struct smd_transport_ops *wanted[SMD_TRANSPORTS_MAX];
	unsigned n = smd_transport_select(options->transport, wanted);
	unsigned chosen = 0;

	for (unsigned place = 0; place <= 2; place++) {
		for (unsigned i = 0; i < n; i++) {
			if (place != place_of(wanted[i])) {
				continue;
			}
			if (options->tls && !smd_transport_can_encrypt(wanted[i])) {
				smd_log(SMD_LOG_INFO, "server",
					"no workers over %s: it cannot encrypt, and --tls is given",
					wanted[i]->name);
				continue;
			}
			transports[chosen++] =
				(struct smd_server_transport){wanted[i], place == 0 || n == 1};
		}
	}
}

/* A port below 1024 is open by now, and no thread has started that would keep what it has. */
static int on_listening(void *owner, struct smd_error *error)
{
	const struct program *program = owner;

	return smd_privileges_drop(program->user, error);
}

static void limit_system_calls(
	const struct smd_server_options *options, const struct smd_server *server)
{
	struct smd_error why = {""};

	if (!options->seccomp) {
		smd_error_set(&why, ENOTSUP, "--seccomp=off");
	} else if (smd_system_calls_limit(smd_server_has_devices(server), &why) == 0) {
		return;
	}
	smd_log(SMD_LOG_INFO, "server", "system calls are not limited: %s", why.text);
}

static int start_server(
	struct program *program, const struct smd_server_options *options, struct smd_error *error)
{
	struct smd_server_config config = {
		.listen = options->listen,
		.heartbeat_ms = options->heartbeat_ms,
		.drain_s = (unsigned)options->drain_s,
		.forming_s = (unsigned)options->forming_s,
		.idle_s = (unsigned)options->idle_s,
		.on_listening = on_listening,
		.on_ended = on_ended,
		.owner = program,
	};
	uint64_t memory;
	bool is_open;
	int ret = smd_server_options_check(options, &is_open, error);

	if (ret) {
		return ret;
	}
	choose_transports(options, config.transports);
	settle(options, &config);
	decide_speed(options, &config);
	ret = smd_memory_decide(
		options->memory_limit, config.shards, SMD_CHUNK_DEFAULT, &memory, error);

	ret = ret ? ret
		  : smd_memory_check_job(options->job_memory_limit, memory, config.shards,
			    SMD_CHUNK_DEFAULT, error);
	if (ret == 0 && options->token_file) {
		config.tokens = &program->tokens;
		config.encrypt = options->tls;
		ret = smd_tokens_read("--token-file", options->token_file, &program->tokens, error);
	}
	if (ret) {
		return ret;
	}
	config.memory_bytes = memory;
	config.job_memory_bytes = options->job_memory_limit;
	smd_log(SMD_LOG_INFO, "server",
		"memory: at most %.0f MiB, %u thread%s with %zu buffers of %u KiB each",
		(double)memory / (1 << 20), config.shards, config.shards == 1 ? "" : "s",
		(size_t)(memory / config.shards / SMD_BUFFER_POOL_STRIDE(SMD_CHUNK_DEFAULT)),
		SMD_CHUNK_DEFAULT >> 10);
	(void)smd_variant_chosen(); /* which tells a SUMMAND_CPU that is none, before there is a job
				     */
	ret = smd_server_start(program->base, &config, &program->server, error);
	if (ret == 0 && is_open) {
		smd_log(SMD_LOG_WARN, "server",
			"insecure: whoever reaches %s can join jobs, read their gradients and "
			"change them: --token-file=FILE lets in only those who have a token",
			smd_server_address(program->server));
	}
	return ret;
}

static int run(const struct smd_server_options *options, struct smd_error *error)
{
	struct program program = {.user = &options->user, .signal_fd = -1};
	struct smd_shard_stats stats;
	int ret = open_notify(options->ready_fd, &program.notify, error);

	if (ret) {
		return ret;
	}
	program.base = event_base_new();
	if (!program.base) {
		return smd_error_set(error, ENOMEM, "out of memory");
	}
	ret = start_server(&program, options, error);
	if (ret) {
		goto free_base;
	}
	if (options->metrics) {
		ret = smd_metrics_start(options->metrics, smd_server_metrics_write, program.server,
			&program.metrics, error);
	}
	if (ret) {
		smd_server_drain(program.server, true);
		goto join_server;
	}
	ret = watch_signals(&program);
	if (ret) {
		smd_error_set(error, -ret, "cannot watch signals: %s", strerror(-ret));
		smd_server_drain(program.server, true);
		goto join_server;
	}
	if (is_replica(options) && smd_server_reports_open(program.base, program.server,
					   program.notify, &program.reports)) {
		ret = smd_error_set(error, ENOMEM, "out of memory");
		smd_server_drain(program.server, true);
		goto join_server;
	}
	limit_system_calls(options, program.server);
	announce_ready(&program);
	event_base_dispatch(program.base);
join_server:
	smd_server_reports_close(program.reports);
	smd_server_join(program.server, &stats);
	event_base_loop(program.base, EVLOOP_NONBLOCK); /* frees what goes at the end of a turn */
	announce_results(&program, &stats);
	smd_metrics_close(program.metrics);
	smd_server_free(program.server);
	unwatch_signals(&program);
free_base:
	smd_loop_free(program.base);
	smd_tokens_free(&program.tokens);
	if (program.notify) {
		fclose(program.notify);
	}
	return ret;
}

int main(int argc, char **argv)
{
	struct smd_server_options options = {
		.listen = "127.0.0.1:2222",
		.transport = "auto",
		.link = {1, 1},
		.share = {1, 1},
		.seccomp = true,
		.ready_fd = getenv(NOTIFY_FD), /* specs/guide/reporting.md */
	};
	struct smd_error error = {""};
	int ret = smd_server_options_parse(argc, argv, &options, &error);

	if (ret == -ENOEXEC) {
		return EXIT_SUCCESS;
	}
	if (ret == 0 && options.version) {
		printf("summand-reduction-server %s\n", SUMMAND_VERSION);
		return EXIT_SUCCESS;
	}
	if (ret == 0) {
		signal(SIGPIPE, SIG_IGN);
		evthread_use_pthreads();
		ret = run(&options, &error);
	}
	if (ret) {
		fprintf(stderr, "summand-reduction-server: %s\n", error.text);
		return ret == -EINVAL ? EXIT_USAGE : EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}
