/* summand-reduction-server: sums the gradients of workers and sends the sums back. */
#include <errno.h>
#include <event2/event.h>
#include <event2/thread.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reduction_server/base/log.h"
#include "reduction_server/base/options.h"
#include "reduction_server/base/parse.h"
#include "reduction_server/base/token.h"
#include "reduction_server/engine/memory.h"
#include "reduction_server/engine/server.h"
#include "reduction_server/kernels/kernels.h"
#include "reduction_server/metrics/endpoint.h"
#include "reduction_server/sandbox/privileges.h"
#include "reduction_server/sandbox/system_calls.h"
#include "reduction_server/server_metrics.h"
#include "reduction_server/server_reports.h"
#include "reduction_server/transport/address.h"
#include "reduction_server/transport/bandwidth.h"
#include "reduction_server/transport/locality.h"
#include "reduction_server/transport/loop.h"

#define EXIT_USAGE          2
#define BANDWIDTH_MOST_MBPS 10000000u
#define PROCESSORS_MAX      8192
#define SECONDS_MOST        604800
#define NOTIFY_FD           "SUMMAND_NOTIFY_FD"

struct options {
	const char *listen;
	int threads; /* 0: as many as the link takes */
	int pins;    /* them, to processors near the card */
	uint64_t memory_limit;
	uint64_t job_memory_limit;
	uint64_t bandwidth_mbps;
	struct smd_share share;
	unsigned heartbeat_ms;
	int drain_s;
	int forming_s;
	int idle_s;
	const char *transport;
	const char *metrics; /* NULL: nowhere */
	const char *ready_fd;
	const char *token_file;
	int insecure;
	int tls;
	struct smd_user user;
	int seccomp;
	int version;
};

struct program {
	struct event_base *base;
	struct smd_server *server;
	struct smd_metrics_endpoint *metrics; /* NULL: none */
	struct smd_server_reports *reports;   /* NULL: nobody reads them */
	struct smd_tokens tokens;
	const struct smd_user *user; /* who it becomes */
	FILE *notify;                /* --ready-fd, or NULL */
	int asked;                   /* how often it was asked to end */
};

static int set_threads(void *target, const char *value, struct smd_error *error)
{
	int ret = smd_option_set_int(target, value, error);

	if (ret || *(int *)target < 1 || *(int *)target > SMD_SHARDS_MAX) {
		error->text[0] = '\0';
		return smd_error_set(error, EINVAL, "must be 1 to %d", SMD_SHARDS_MAX);
	}
	return 0;
}

static int set_share(void *target, const char *value, struct smd_error *error)
{
	if (smd_parse_share(value, target)) {
		return smd_error_set(error, EINVAL,
			"must be two numbers from 1 to %d such as 5/14", SMD_SHARE_TERM_MAX);
	}
	return 0;
}

static int set_heartbeat(void *target, const char *value, struct smd_error *error)
{
	uint64_t ms;

	if (smd_parse_milliseconds(
		    value, SMD_HEARTBEAT_LIMIT_LEAST_MS, SMD_HEARTBEAT_LIMIT_MOST_MS, &ms)) {
		return smd_error_set(error, EINVAL, "must be " SMD_HEARTBEAT_LIMITS);
	}
	*(unsigned *)target = (unsigned)ms;
	return 0;
}

static int set_seconds(void *target, const char *value, struct smd_error *error)
{
	uint64_t seconds;

	if (smd_parse_number(value, 1, SECONDS_MOST, &seconds)) {
		return smd_error_set(error, EINVAL, "must be 1 to %d seconds", SECONDS_MOST);
	}
	*(int *)target = (int)seconds;
	return 0;
}

static int set_listen(void *target, const char *value, struct smd_error *error)
{
	if (smd_addresses_check(value)) {
		return smd_error_set(error, EINVAL, "must be ADDR:PORT");
	}
	*(const char **)target = value;
	return 0;
}

static int set_metrics(void *target, const char *value, struct smd_error *error)
{
	int ret = smd_metrics_address_check(value, error);

	if (ret == 0) {
		*(const char **)target = value;
	}
	return ret;
}

static int set_transport(void *target, const char *value, struct smd_error *error)
{
	const struct smd_transport_ops *transports[SMD_TRANSPORTS_MAX];
	char names[SMD_TRANSPORT_NAMES_MAX];

	if (smd_transport_select(value, transports) == 0) {
		return smd_error_set(error, EINVAL, "must be %s", smd_transport_names(names));
	}
	*(const char **)target = value;
	return 0;
}

static int set_user(void *target, const char *value, struct smd_error *error)
{
	return smd_user_find(value, target, error);
}

static int set_affinity(void *target, const char *value, struct smd_error *error)
{
	if (strcmp(value, "card") != 0 && strcmp(value, "none") != 0) {
		return smd_error_set(error, EINVAL, "must be card or none");
	}
	*(int *)target = strcmp(value, "card") == 0;
	return 0;
}

static int set_switch(void *target, const char *value, struct smd_error *error)
{
	if (strcmp(value, "on") != 0 && strcmp(value, "off") != 0) {
		return smd_error_set(error, EINVAL, "must be on or off");
	}
	*(int *)target = strcmp(value, "on") == 0;
	return 0;
}

static int parse_options(int argc, char **argv, struct options *options, struct smd_error *error)
{
	char names[SMD_TRANSPORT_NAMES_MAX];
	char transport_help[SMD_TRANSPORT_NAMES_MAX + 64];
	const struct smd_option table[] = {
		SMD_OPTION_GROUP("Connections"),
		{"listen", "ADDR:PORT",
			"where workers connect; port 0 takes any free one; ADDR:PORT+ADDR:PORT is "
			"an "
			"address on each of two networks (default 127.0.0.1:2222)",
			set_listen, &options->listen},
		{"transport", "NAME", transport_help, set_transport, &options->transport},
		{"bandwidth", "RATE",
			"what the link carries, such as 25gbps, which is the server's share of "
			"chunks (default: what the interface says, else 10gbps)",
			smd_option_set_bandwidth, &options->bandwidth_mbps},
		{"share", "PART/WHOLE",
			"the share of chunks is so much of that, because workers on this host use "
			"its link too (default 1/1)",
			set_share, &options->share},
		SMD_OPTION_GROUP("Who is let in"),
		{"token-file", "FILE",
			"only workers with a token of this file: one for all jobs, or lines \"JOB "
			"TOKEN\"",
			smd_option_set_string, &options->token_file},
		{"tls", NULL,
			"only workers with SUMMAND_TLS=1; all that crosses is encrypted; over TCP, "
			"with a token",
			smd_option_set_bool, &options->tls},
		{"insecure", NULL,
			"whoever reaches it, where it listens for other machines without a token",
			smd_option_set_bool, &options->insecure},
		SMD_OPTION_GROUP("Memory and threads"),
		{"threads", "N",
			"shards, each a thread of its own (default: as many as the link takes, one "
			"for "
			"each 10 Gbit/s)",
			set_threads, &options->threads},
		{"affinity", "card|none",
			"card: threads run on the processors of the network card's NUMA node "
			"(default none)",
			set_affinity, &options->pins},
		{"memory-limit", "SIZE",
			"memory for chunks in flight (default 4G, at most half of what is free)",
			smd_option_set_size, &options->memory_limit},
		{"job-memory-limit", "SIZE",
			"what one job may have of that for its groups (default seven eighths)",
			smd_option_set_size, &options->job_memory_limit},
		SMD_OPTION_GROUP("Times"),
		{"heartbeat-limit", "SECONDS",
			"a worker that is silent for so long is lost, at least 0.5 (default 15)",
			set_heartbeat, &options->heartbeat_ms},
		{"forming-timeout", "SECONDS",
			"a group that is not complete after that is over (default 600)",
			set_seconds, &options->forming_s},
		{"idle-timeout", "SECONDS",
			"a connection that is in no group for so long is ended (default 3600)",
			set_seconds, &options->idle_s},
		{"drain-timeout", "SECONDS",
			"how long groups have to end after SIGTERM, before their ranks are told "
			"and "
			"the server ends (default 25)",
			set_seconds, &options->drain_s},
		SMD_OPTION_GROUP("Process"),
		{"user", "NAME",
			"become this user once it listens; only root may (default: stay who it is)",
			set_user, &options->user},
		{"seccomp", "on|off",
			"a system call that a reduction server has no use for ends it (default on)",
			set_switch, &options->seccomp},
		{"metrics", "ADDR:PORT",
			"answer GET /metrics there, in Prometheus' text format; port 0 takes any "
			"free "
			"one, and PORT alone is of 127.0.0.1 (default: nowhere)",
			set_metrics, &options->metrics},
		{"ready-fd", "N",
			"also write ready line and results to this descriptor (default "
			"SUMMAND_NOTIFY_FD)",
			smd_option_set_string, &options->ready_fd},
		{"version", NULL, "print the version", smd_option_set_bool, &options->version},
	};
	const struct smd_command command = {
		.synopsis = "summand-reduction-server [OPTION...]",
		.summary = "Sums the gradients that workers send, and sends the sums back.",
		.options = table,
		.noptions = sizeof(table) / sizeof(table[0]),
		.epilog = "The first line on standard output says where it listens: ready "
			  "127.0.0.1:41873. SIGTERM drains the server: it ends when its groups "
			  "have, or after --drain-timeout; a second SIGTERM ends it at once.",
		.exits =
			"Exit codes: 0 it was drained, 1 it could not serve, 2 the command line is "
			"wrong.",
	};
	int noperands;
	int ret;

	snprintf(transport_help, sizeof(transport_help),
		"%s; auto: each that has its device here (default auto)",
		smd_transport_names(names));
	ret = smd_options_parse(&command, argc, argv, &noperands, error);

	if (ret == 0 && noperands) {
		ret = smd_error_set(error, EINVAL, "there must be no operand, got \"%s\"", argv[1]);
	}
	return ret;
}

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
static int is_replica(const struct options *options)
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

static void on_signal(evutil_socket_t signal_number, short what, void *arg)
{
	struct program *program = arg;

	(void)what;
	program->asked++;
	smd_log(SMD_LOG_INFO, "server", "%s: %s", strsignal((int)signal_number),
		program->asked == 1 ? "draining" : "ending at once");
	smd_server_drain(program->server, program->asked > 1);
}

static void on_ended(void *owner)
{
	struct program *program = owner;

	event_base_loopbreak(program->base);
}

/* Without a token it serves this machine, unless somebody has said that the network is safe. */
static int check_exposure(const struct options *options, bool *is_open, struct smd_error *error)
{
	char address[SMD_ADDRESS_LONGEST];
	int stays_here = 1;

	for (unsigned i = 0; smd_addresses_get(options->listen, i, address) && stays_here == 1;
		i++) {
		stays_here = smd_address_stays_here(address, error);
	}
	*is_open = !options->token_file && stays_here == 0;
	if (*is_open && !options->insecure) {
		return smd_error_set(error, EINVAL,
			"--listen: must be a loopback address, got \"%s\": whoever reaches another "
			"one could join jobs, read their gradients and change them. "
			"--token-file=FILE lets in only those who have a token; --insecure lets in "
			"everybody, for networks on which all are trusted",
			options->listen);
	}
	return stays_here < 0 ? stays_here : 0;
}

/* What the link carries, as it was given or as the interface says. */
static int check_bandwidth(const struct options *options, struct smd_error *error)
{
	if (options->bandwidth_mbps > BANDWIDTH_MOST_MBPS) {
		return smd_error_set(error, EINVAL,
			"--bandwidth: must be at most 10000gbps, got %" PRIu64 "mbps",
			options->bandwidth_mbps);
	}
	return 0;
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

/* What is declared of it: as much as workers on the host leave for the reducer beside them. */
static uint32_t declare_share(uint32_t mbps, const struct smd_share *share)
{
	uint64_t part = (uint64_t)mbps * share->part;
	uint64_t declared = (part + share->whole / 2) / share->whole;

	declared = declared > BANDWIDTH_MOST_MBPS ? BANDWIDTH_MOST_MBPS : declared;
	return declared > 0 ? (uint32_t)declared : 1;
}

/*
 * Half of a window, in proportion. With as many chunks under way as servers with whole links have,
 * reducers would get theirs first, and those servers the rest last, with their links idle meanwhile.
 * More than half a share has only who is beside no such server.
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
static uint32_t read_bandwidth(const struct options *options,
	const struct smd_server_config *config, char source[SMD_BANDWIDTH_SOURCE_MAX])
{
	uint32_t mbps = 0;

	for (unsigned i = 0; !mbps && i < SMD_TRANSPORTS_MAX && config->transports[i].ops; i++) {
		const struct smd_transport_ops *ops = config->transports[i].ops;

		mbps = ops->rate
			       ? ops->rate(options->listen, source, SMD_BANDWIDTH_SOURCE_MAX)
			       : 0;
	}
	return mbps ? mbps : smd_bandwidth_read(options->listen, "", source);
}

/* Bandwidth and shards: as given, or as there is. */
static void decide_speed(const struct options *options, struct smd_server_config *config)
{
	char source[SMD_BANDWIDTH_SOURCE_MAX] = "as given";
	uint32_t mbps = (uint32_t)options->bandwidth_mbps; /* check_bandwidth() has seen it */

	if (mbps == 0) {
		mbps = read_bandwidth(options, config, source);
	}
	config->bandwidth_mbps = mbps ? mbps : SMD_BANDWIDTH_DEFAULT_MBPS;
	config->shards = options->threads ? (unsigned)options->threads
					  : smd_bandwidth_shards(mbps, count_processors());
	if (config->shards > SMD_SHARDS_MAX) {
		config->shards = SMD_SHARDS_MAX;
	}
	smd_log(SMD_LOG_INFO, "server", "bandwidth: %u Mbit/s, %s", config->bandwidth_mbps, source);
	if (options->share.part != options->share.whole) {
		config->bandwidth_mbps = declare_share(config->bandwidth_mbps, &options->share);
		config->window = share_window(&options->share);
		smd_log(SMD_LOG_INFO, "server",
			"share of chunks: %u/%u of that, as for %u Mbit/s, with a window of %u",
			options->share.part, options->share.whole, config->bandwidth_mbps,
			config->window);
	}
}

/*
 * Transports that every host has come first and must be there, the others where their devices are;
 * one that was named must be there.
 */
static void choose_transports(
	const struct options *options, struct smd_server_transport transports[])
{
	const struct smd_transport_ops *wanted[SMD_TRANSPORTS_MAX];
	unsigned n = smd_transport_select(options->transport, wanted);
	unsigned chosen = 0;

	for (int everywhere = 1; everywhere >= 0; everywhere--) {
		for (unsigned i = 0; i < n; i++) {
			if (everywhere != !wanted[i]->device) {
				continue;
			}
			if (options->tls && !smd_transport_can_encrypt(wanted[i])) {
				smd_log(SMD_LOG_INFO, "server",
					"no workers over %s: it cannot encrypt, and --tls is given",
					wanted[i]->name);
				continue;
			}
			transports[chosen++] =
				(struct smd_server_transport){wanted[i], everywhere || n == 1};
		}
	}
}

/* Keys come from tokens, and of what was named something must be able to encrypt. */
static int check_tls(const struct options *options, struct smd_error *error)
{
	const struct smd_transport_ops *wanted[SMD_TRANSPORTS_MAX];
	unsigned n = smd_transport_select(options->transport, wanted);
	bool can = !options->tls;

	for (unsigned i = 0; i < n; i++) {
		can |= smd_transport_can_encrypt(wanted[i]);
	}
	if (!can) {
		return smd_error_set(error, EINVAL,
			"--tls: --transport must be able to encrypt (tcp is, where OpenSSL was at "
			"its build), got %s",
			options->transport);
	}
	if (options->tls && !options->token_file) {
		return smd_error_set(error, EINVAL,
			"--tls: must come with --token-file=FILE: its keys are made of the job's "
			"token");
	}
	return 0;
}

/* A port below 1024 is open by now, and no thread has started that would keep what it has. */
static int on_listening(void *owner, struct smd_error *error)
{
	const struct program *program = owner;

	return smd_privileges_drop(program->user, error);
}

static void limit_system_calls(const struct options *options, const struct smd_server *server)
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
	struct program *program, const struct options *options, struct smd_error *error)
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
	int ret = check_bandwidth(options, error);

	ret = ret ? ret : check_tls(options, error);
	ret = ret ? ret : check_exposure(options, &is_open, error);
	if (ret) {
		return ret;
	}
	choose_transports(options, config.transports);
	smd_locality_settle(options->listen, options->pins);
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
		"memory: at most %.0f MiB, %u threads with %zu buffers of %u KiB each",
		(double)memory / (1 << 20), config.shards,
		(size_t)(memory / config.shards / SMD_BUFFER_POOL_STRIDE(SMD_CHUNK_DEFAULT)),
		SMD_CHUNK_DEFAULT >> 10);
	(void)smd_variant_chosen(); /* which tells a SUMMAND_CPU that is none, before there is a job */
	ret = smd_server_start(program->base, &config, &program->server, error);
	if (ret == 0 && is_open) {
		smd_log(SMD_LOG_WARN, "server",
			"insecure: whoever reaches %s can join jobs, read their gradients and "
			"change them: --token-file=FILE lets in only those who have a token",
			smd_server_address(program->server));
	}
	return ret;
}

static int run(const struct options *options, struct smd_error *error)
{
	struct program program = {.user = &options->user};
	struct event *signals[2] = {NULL, NULL};
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
	signals[0] = evsignal_new(program.base, SIGTERM, on_signal, &program);
	signals[1] = evsignal_new(program.base, SIGINT, on_signal, &program);
	for (size_t i = 0; i < 2; i++) {
		if (!signals[i] || event_add(signals[i], NULL) != 0) {
			ret = smd_error_set(error, ENOMEM, "out of memory");
			smd_server_drain(program.server, true);
			goto join_server;
		}
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
	for (size_t i = 0; i < 2; i++) {
		if (signals[i]) {
			event_free(signals[i]);
		}
	}
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
	struct options options = {
		.listen = "127.0.0.1:2222",
		.transport = "auto",
		.share = {1, 1},
		.seccomp = true,
		.ready_fd = getenv(NOTIFY_FD), /* specs/guide/reporting.md */
	};
	struct smd_error error = {""};
	int ret = parse_options(argc, argv, &options, &error);

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
