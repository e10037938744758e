/* Reads a reduction server's command line, and judges it. */
#include "reduction_server/server_options.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "reduction_server/base/options.h"
#include "reduction_server/engine/server.h"
#include "reduction_server/metrics/endpoint.h"
#include "reduction_server/transport/address.h"

#define SECONDS_MOST 604800

static int set_threads(void *target, const char *value, struct smd_error *error)
{
	int ret = smd_option_set_int(target, value, error);

	if (ret || *(int *)target < 1 || *(int *)target > SMD_SHARDS_MAX) {
		error->text[0] = '\0';
		return smd_error_set(error, EINVAL, "must be 1 to %d", SMD_SHARDS_MAX);
	}
	return 0;
}

/* As it is given, or a part of what the link says. */
static int set_bandwidth(void *target, const char *value, struct smd_error *error)
{
	struct smd_server_options *options = target;
	struct smd_share link = {1, 1};
	uint64_t mbps = 0;

	if ((smd_parse_bandwidth(value, &mbps) && smd_parse_share(value, &link)) ||
		link.part > link.whole) {
		return smd_error_set(error, EINVAL,
			"must be a bandwidth such as 25gbps, or a part of the link's such as 1/2");
	}
	options->bandwidth_mbps = mbps;
	options->link = link;
	return 0;
}

static int set_share(void *target, const char *value, struct smd_error *error)
{
	if (smd_parse_share(value, target)) {
		return smd_error_set(error, EINVAL, "must be two numbers from 1 to %d such as 5/14",
			SMD_SHARE_TERM_MAX);
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

int smd_server_options_parse(
	int argc, char **argv, struct smd_server_options *options, struct smd_error *error)
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
		{"bandwidth", "RATE|PART/WHOLE",
			"what the link carries, such as 25gbps, which is the server's share of "
			"chunks; or so much of what the interface says, else of 10gbps (default 1/1)",
			set_bandwidth, options},
		{"share", "PART/WHOLE",
			"the share of chunks is so much of that, because workers on this host use "
			"its link too (default 1/1)",
			set_share, &options->share},
		{"spare", NULL,
			"gets no chunks until operations are seen to gain by it, or no other server "
			"is left",
			smd_option_set_bool, &options->spare},
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
			"for each 10 Gbit/s; of rdma alone at most 8)",
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
			"and, about a second later at the latest, the server ends (default 25)",
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

/* Without a token it serves this machine, unless somebody has said that the network is safe. */
static int check_exposure(
	const struct smd_server_options *options, bool *is_open, struct smd_error *error)
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
static int check_bandwidth(const struct smd_server_options *options, struct smd_error *error)
{
	if (options->bandwidth_mbps > SMD_SERVER_BANDWIDTH_MOST_MBPS) {
		return smd_error_set(error, EINVAL,
			"--bandwidth: must be at most 10000gbps, got %" PRIu64 "mbps",
			options->bandwidth_mbps);
	}
	return 0;
}

/* Keys come from tokens, and of what was named something must be able to encrypt. */
static int check_tls(const struct smd_server_options *options, struct smd_error *error)
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

int smd_server_options_check(
	const struct smd_server_options *options, bool *is_open, struct smd_error *error)
{
	int ret = check_bandwidth(options, error);

	ret = ret ? ret : check_tls(options, error);
	return ret ? ret : check_exposure(options, is_open, error);
}
