/* Reads options and environment. */
#include "worker/libsummand/config.h"

#include <errno.h>
#include <jansson.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reduction_server/base/dtype.h"
#include "reduction_server/base/log.h"
#include "reduction_server/base/parse.h"
#include "reduction_server/base/peek.h"
#include "reduction_server/base/token.h"
#include "reduction_server/transport/address.h"
#include "reduction_server/transport/heartbeat.h"
#include "reduction_server/transport/lane_key.h"
#include "worker/libsummand/job_id.h"

#define CONNECT_TIMEOUT_MOST_S 86400
#define MEMORY_DEFAULT_BYTES   (64ull << 20)
#define MEMORY_MOST_BYTES      (1ull << 40)

bool smd_config_is_server(const struct smd_config *config, const char *addresses)
{
	char address[SMD_ADDRESS_LONGEST];
	char host[256];
	uint16_t port;

	if (config->transports[0]->names) {
		return true; /* tests name servers of theirs in other ways */
	}
	if (smd_addresses_check(addresses)) {
		return false;
	}
	for (unsigned i = 0; smd_addresses_get(addresses, i, address); i++) {
		if (smd_parse_endpoint(address, host, sizeof(host), &port) || port == 0) {
			return false;
		}
	}
	return true;
}

static int add_server(
	struct smd_config *config, const char *text, size_t length, struct smd_error *error)
{
	char *server;

	if (config->nservers == SMD_SERVERS_MAX) {
		return smd_error_set(error, EINVAL, "reduction servers: there must be at most %d",
			SMD_SERVERS_MAX);
	}
	server = strndup(text, length);
	if (!server) {
		return smd_error_set(error, ENOMEM, "reduction servers: out of memory");
	}
	if (!smd_config_is_server(config, server)) {
		smd_error_set(error, EINVAL,
			"reduction servers: each must be host:port, got \"%s\"", server);
		free(server);
		return -EINVAL;
	}
	config->servers[config->nservers++] = server;
	return 0;
}

static int add_list(struct smd_config *config, const char *list, struct smd_error *error)
{
	while (*list) {
		size_t length = strcspn(list, ",");
		int ret = add_server(config, list, length, error);

		if (ret) {
			return ret;
		}
		list += length;
		list += *list == ',';
	}
	return 0;
}

static int add_pool(struct smd_config *config, const json_t *pool, struct smd_error *error)
{
	const json_t *host;
	size_t i;

	json_array_foreach (pool, i, host) {
		int ret =
			json_is_string(host)
				? add_server(config, json_string_value(host),
					  json_string_length(host), error)
				: smd_error_set(error, EINVAL,
					  "CLUSTER_SPEC: workerpool2 must list host:port strings");

		if (ret) {
			return ret;
		}
	}
	return 0;
}

/* Only where servers are wanted from it a bad one is an error; else it costs no job its life. */
static int refuse_cluster_spec(
	const struct smd_config *config, const char *rule, const char *got, struct smd_error *error)
{
	if (config->nservers > 0) {
		smd_log(SMD_LOG_WARN, "config", "CLUSTER_SPEC: %s, got %.200s; it is not used",
			rule, got);
		return 0;
	}
	return smd_error_set(error, EINVAL, "CLUSTER_SPEC: %s, got %.200s", rule, got);
}

/* The replica's name, which costs nobody the job. */
static void take_task(struct smd_config *config, const json_t *task)
{
	const json_t *type = json_object_get(task, "type");
	const json_t *index = json_object_get(task, "index");

	if (!json_is_string(type) || !json_is_integer(index) || json_integer_value(index) < 0) {
		smd_log(SMD_LOG_WARN, "config",
			"CLUSTER_SPEC: task must be an object with a type and an index of 0 or "
			"more; it is not used");
	} else if (config->replica[0] == '\0') {
		snprintf(config->replica, sizeof(config->replica), "%.200s-%lld",
			json_string_value(type), (long long)json_integer_value(index));
	}
}

/* CLUSTER_SPEC gives what the environment's own variables and the options leave open. */
static int read_cluster_spec(struct smd_config *config, struct smd_error *error)
{
	const char *text = getenv("CLUSTER_SPEC");
	json_error_t reason;
	const json_t *cluster;
	const json_t *pool;
	json_t *root;
	int ret = 0;

	if (!text) {
		return 0;
	}
	root = json_loads(text, 0, &reason);
	if (!root) {
		return refuse_cluster_spec(config, "must be JSON", reason.text, error);
	}
	cluster = json_object_get(root, "cluster");
	if (!json_is_object(root) || (cluster && !json_is_object(cluster))) {
		json_decref(root);
		return refuse_cluster_spec(
			config, "must be an object whose cluster is one", text, error);
	}
	pool = json_object_get(cluster, "workerpool2");
	if (pool && !json_is_array(pool)) {
		json_decref(root);
		return refuse_cluster_spec(
			config, "workerpool2 must list host:port strings", text, error);
	}
	if (config->nservers == 0) {
		ret = add_pool(config, pool, error);
	}
	if (json_object_get(root, "task")) {
		take_task(config, json_object_get(root, "task"));
	}
	json_decref(root);
	return ret;
}

static int read_timeout(unsigned option, unsigned *out, struct smd_error *error)
{
	const char *text = getenv("SUMMAND_CONNECT_TIMEOUT");
	uint64_t seconds = SMD_CONNECT_TIMEOUT_S;

	if (option) {
		seconds = option;
	} else if (text && smd_parse_number(text, 1, CONNECT_TIMEOUT_MOST_S, &seconds)) {
		return smd_error_set(error, EINVAL,
			"SUMMAND_CONNECT_TIMEOUT: must be 1 to %d seconds, got \"%s\"",
			CONNECT_TIMEOUT_MOST_S, text);
	}
	*out = (unsigned)seconds;
	return 0;
}

static int read_rates(bool *declared, struct smd_error *error)
{
	const char *text = getenv("SUMMAND_RATES");

	*declared = text && strcmp(text, "declared") == 0;
	if (text && *text && !*declared && strcmp(text, "measured") != 0) {
		return smd_error_set(error, EINVAL,
			"SUMMAND_RATES: must be measured or declared, got \"%s\"", text);
	}
	return 0;
}

static int read_exchange(enum smd_exchange_mode *out, struct smd_error *error)
{
	const char *text = getenv("SUMMAND_EXCHANGE");
	bool given = text && *text && strcmp(text, "auto") != 0;

	*out = !given                    ? SMD_EXCHANGE_AUTO
	       : strcmp(text, "on") == 0 ? SMD_EXCHANGE_ON
					 : SMD_EXCHANGE_OFF;
	if (*out == SMD_EXCHANGE_OFF && strcmp(text, "off") != 0) {
		return smd_error_set(error, EINVAL,
			"SUMMAND_EXCHANGE: must be auto, on or off, got \"%s\"", text);
	}
	return 0;
}

static int read_wire(unsigned *out, struct smd_error *error)
{
	const char *text = getenv("SUMMAND_WIRE");
	struct smd_error why = {""};

	*out = SMD_FLOAT32;
	if (text && *text && smd_wire_parse(text, out, &why)) {
		return smd_error_set(error, EINVAL, "SUMMAND_WIRE: %s, got \"%s\"", why.text, text);
	}
	return 0;
}

/* How much was left out shows in the length of what is encrypted: there it must be asked for. */
static int read_zero_blocks(struct smd_config *config, struct smd_error *error)
{
	const char *text = getenv("SUMMAND_ZERO_BLOCKS");
	bool given = text && *text;

	config->zeros_asked = given && strcmp(text, "on") == 0;
	config->zeros_skipped = config->zeros_asked || (!given && !config->encrypt);
	if (given && !config->zeros_asked && strcmp(text, "off") != 0) {
		return smd_error_set(
			error, EINVAL, "SUMMAND_ZERO_BLOCKS: must be on or off, got \"%s\"", text);
	}
	if (config->zeros_skipped && !smd_peek_works()) {
		smd_log(config->zeros_asked ? SMD_LOG_WARN : SMD_LOG_INFO, "libsummand",
			"blocks of zeros that this process sends cross like others: "
			"process_vm_readv() and msync() must be allowed");
	}
	return 0;
}

static int read_progress(enum smd_progress_mode option, bool *poll, struct smd_error *error)
{
	const char *text = getenv("SUMMAND_PROGRESS");

	*poll = option == SMD_PROGRESS_POLL;
	if (option != SMD_PROGRESS_DEFAULT || !text || !*text) {
		return 0;
	}
	*poll = strcmp(text, "poll") == 0;
	if (!*poll && strcmp(text, "thread") != 0) {
		return smd_error_set(error, EINVAL,
			"SUMMAND_PROGRESS: must be thread or poll, got \"%s\"", text);
	}
	return 0;
}

static int read_affinity(struct smd_config *out, struct smd_error *error)
{
	const char *text = getenv("SUMMAND_AFFINITY");

	text = text && *text ? text : "spread";
	out->near_card = strcmp(text, "card") == 0;
	out->spread = strcmp(text, "any") != 0;
	if (out->spread && !out->near_card && strcmp(text, "spread") != 0) {
		return smd_error_set(error, EINVAL,
			"SUMMAND_AFFINITY: must be spread, card or any, got \"%s\"", text);
	}
	return 0;
}

static int read_heartbeat(unsigned *out, struct smd_error *error)
{
	const char *text = getenv("SUMMAND_HEARTBEAT_LIMIT");
	uint64_t ms = SMD_HEARTBEAT_SERVER_DEFAULT_MS;

	if (text && smd_parse_milliseconds(
			    text, SMD_HEARTBEAT_LIMIT_LEAST_MS, SMD_HEARTBEAT_LIMIT_MOST_MS, &ms)) {
		return smd_error_set(error, EINVAL,
			"SUMMAND_HEARTBEAT_LIMIT: must be " SMD_HEARTBEAT_LIMITS ", got \"%s\"",
			text);
	}
	*out = (unsigned)ms;
	return 0;
}

static int read_memory(const char *variable, unsigned least, uint64_t *out, struct smd_error *error)
{
	const char *text = getenv(variable);

	*out = MEMORY_DEFAULT_BYTES;
	if (text && (smd_parse_size(text, out) || *out < least || *out > MEMORY_MOST_BYTES)) {
		return smd_error_set(error, EINVAL, "%s: must be %u to 1024G, got \"%s\"", variable,
			least, text);
	}
	return 0;
}

static const char *first_of(const char *option, const char *variable, const char *fallback)
{
	const char *value = option ? option : getenv(variable);

	return value && *value ? value : fallback;
}

static int copy_name(
	char out[SMD_STRING_MAX + 1], const char *what, const char *value, struct smd_error *error)
{
	if (strlen(value) > SMD_STRING_MAX) {
		return smd_error_set(error, EINVAL, "%s: must have at most %d bytes, got %zu", what,
			SMD_STRING_MAX, strlen(value));
	}
	for (const char *c = value; *c; c++) {
		if ((unsigned char)*c < 0x20 || *c == 0x7f) {
			return smd_error_set(
				error, EINVAL, "%s: must have no control characters", what);
		}
	}
	snprintf(out, SMD_STRING_MAX + 1, "%s", value);
	return 0;
}

/*
 * A runner begins a job again when a host is lost, of which it cannot know that nothing works there
 * any more. A later attempt is a job of its own to the servers, so that its ranks never meet those.
 */
static int add_attempt(char job[SMD_STRING_MAX + 1], struct smd_error *error)
{
	const char *text = getenv("SUMMAND_ATTEMPT");
	size_t length = strlen(job);
	uint64_t attempt = 0;

	if (text && *text && smd_parse_number(text, 0, UINT32_MAX, &attempt)) {
		return smd_error_set(error, EINVAL,
			"SUMMAND_ATTEMPT: must be 0 to %u, got \"%s\"", UINT32_MAX, text);
	}
	if (length == 0 || attempt == 0) {
		return 0;
	}
	if (snprintf(job + length, SMD_STRING_MAX + 1 - length, SMD_TOKEN_ATTEMPT "%u",
		    (unsigned)attempt) > (int)(SMD_STRING_MAX - length)) {
		return smd_error_set(error, EINVAL,
			"SUMMAND_JOB_ID: must leave room for " SMD_TOKEN_ATTEMPT
			"%u in %d bytes, got %zu",
			(unsigned)attempt, SMD_STRING_MAX, length);
	}
	return 0;
}

/* Told once at INFO: where ranks wait for each other in vain, it may be their jobs that differ. */
static int read_job(const char *option, struct smd_config *config, struct smd_error *error)
{
	const char *job = first_of(option, "SUMMAND_JOB_ID", "");
	const char *source = "SUMMAND_JOB_ID";
	char found[2 * SMD_STRING_MAX + 2]; /* so that one that is too long is seen to be */
	static atomic_flag told = ATOMIC_FLAG_INIT;
	int ret;

	if (!*job) {
		source = smd_job_id_find(found, sizeof(found));
		job = found;
	}
	ret = copy_name(config->job, source, job, error);
	ret = ret ? ret : add_attempt(config->job, error);
	if (ret || job != found || atomic_flag_test_and_set(&told)) {
		return ret;
	}
	if (!source) {
		smd_log(SMD_LOG_INFO, "config",
			"job: none is known, so another one without may use the same group names; "
			"SUMMAND_JOB_ID would tell them apart");
	} else {
		smd_log(SMD_LOG_INFO, "config", "job: %s, from %s", job, source);
	}
	return 0;
}

static int read_token(struct smd_config *config, struct smd_error *error)
{
	const char *path = getenv("SUMMAND_TOKEN_FILE");

	if (!path || !*path) {
		return 0;
	}
	return smd_token_read("SUMMAND_TOKEN_FILE", path, config->token, error) ? -EINVAL : 0;
}

static int read_transport(const char *name, struct smd_config *config, struct smd_error *error)
{
	char names[SMD_TRANSPORT_NAMES_MAX];

	config->ntransports = smd_transport_select(name, config->transports);
	return config->ntransports
		       ? 0
		       : smd_error_set(error, EINVAL, "SUMMAND_TRANSPORT: must be %s, got \"%s\"",
				 smd_transport_names(names), name);
}

/* Leaves the transports that can encrypt. */
static int leave_encrypting(struct smd_config *config, struct smd_error *error)
{
	const char *named = config->ntransports > 1 ? "auto" : config->transports[0]->name;
	unsigned n = 0;

	for (unsigned i = 0; i < config->ntransports; i++) {
		if (smd_transport_can_encrypt(config->transports[i])) {
			config->transports[n++] = config->transports[i];
		} else if (config->ntransports > 1) {
			smd_log(SMD_LOG_INFO, "config",
				"lanes do not go over %s: it cannot encrypt, and SUMMAND_TLS is 1",
				config->transports[i]->name);
		}
	}
	config->ntransports = n;
	return n ? 0
		 : smd_error_set(error, EINVAL,
			   "SUMMAND_TLS: SUMMAND_TRANSPORT must be able to encrypt (tcp is, where "
			   "OpenSSL was at its build), got %s",
			   named);
}

/* After the job and its token. */
static int read_tls(struct smd_config *config, struct smd_error *error)
{
	const char *text = getenv("SUMMAND_TLS");
	int ret;

	if (!text || !*text || strcmp(text, "0") == 0) {
		return 0;
	}
	if (strcmp(text, "1") != 0) {
		return smd_error_set(
			error, EINVAL, "SUMMAND_TLS: must be 0 or 1, got \"%s\"", text);
	}
	if (config->token[0] == '\0') {
		return smd_error_set(error, EINVAL,
			"SUMMAND_TLS: must come with SUMMAND_TOKEN_FILE: its keys are made of the "
			"job's token");
	}
	ret = leave_encrypting(config, error);
	if (ret == 0) {
		config->encrypt = true;
		ret = smd_lane_key_derive(&config->key, config->job, config->token);
		ret = ret ? smd_error_set(error, -ret, "SUMMAND_TLS: cannot make a key: %s",
				    strerror(-ret))
			  : 0;
	}
	return ret;
}

static int read_all(const struct smd_context_options *options, struct smd_config *config,
	struct smd_error *error)
{
	int ret = read_transport(
		first_of(options->transport, "SUMMAND_TRANSPORT", "auto"), config, error);

	if (ret) {
		return ret;
	}
	ret = copy_name(config->replica, "SUMMAND_REPLICA",
		first_of(options->replica, "SUMMAND_REPLICA", ""), error);
	if (ret == 0) {
		ret = read_job(options->job, config, error);
	}
	if (ret == 0) {
		ret = add_list(
			config, first_of(options->servers, "SUMMAND_REDUCTION_SERVERS", ""), error);
	}
	if (ret == 0) {
		ret = read_cluster_spec(config, error);
	}
	if (ret == 0) {
		ret = read_token(config, error);
	}
	if (ret == 0) {
		ret = read_tls(config, error);
	}
	if (ret == 0) {
		ret = read_timeout(options->connect_timeout_s, &config->connect_timeout_s, error);
	}
	if (ret == 0) {
		ret = read_heartbeat(&config->heartbeat_ms, error);
	}
	if (ret == 0) {
		ret = read_memory("SUMMAND_STAGING_BYTES", 1, &config->staging_bytes, error);
	}
	if (ret == 0) {
		ret = read_memory("SUMMAND_UNDO_BYTES", 0, &config->undo_bytes, error);
	}
	if (ret == 0) {
		ret = read_progress(options->progress, &config->poll, error);
	}
	if (ret == 0) {
		ret = read_affinity(config, error);
	}
	if (ret == 0) {
		ret = read_rates(&config->declared_rates, error);
	}
	if (ret == 0) {
		ret = read_exchange(&config->exchange, error);
	}
	if (ret == 0) {
		ret = read_wire(&config->wire_dtype, error);
	}
	if (ret == 0) {
		ret = read_zero_blocks(config, error);
	}
	config->ninitial = config->nservers;
	if (ret == 0 && *first_of(NULL, "SUMMAND_SERVERS_FILE", "")) {
		config->servers_file = strdup(getenv("SUMMAND_SERVERS_FILE"));
		ret = config->servers_file
			      ? 0
			      : smd_error_set(error, ENOMEM, "SUMMAND_SERVERS_FILE: out of memory");
	}
	if (ret == 0 && config->nservers == 0) {
		ret = smd_error_set(error, ENOENT,
			"no reduction servers: set SUMMAND_REDUCTION_SERVERS=host:port,... or run "
			"in a job whose CLUSTER_SPEC has a workerpool2");
	}
	return ret;
}

int smd_config_read(
	const struct smd_context_options *options, struct smd_config *out, struct smd_error *error)
{
	static const struct smd_context_options none;
	struct smd_config config = {.nservers = 0};
	int ret = read_all(options ? options : &none, &config, error);

	if (ret) {
		smd_config_free(&config);
		return ret;
	}
	if (config.replica[0] == '\0') {
		char host[128] = "worker";

		gethostname(host, sizeof(host) - 1);
		snprintf(config.replica, sizeof(config.replica), "%s:%d", host, (int)getpid());
	}
	*out = config;
	explicit_bzero(config.token, sizeof(config.token));
	explicit_bzero(&config.key, sizeof(config.key));
	return 0;
}

void smd_config_free(struct smd_config *config)
{
	for (unsigned i = 0; i < config->nservers; i++) {
		free(config->servers[i]);
	}
	config->nservers = 0;
	free(config->servers_file);
	config->servers_file = NULL;
	explicit_bzero(config->token, sizeof(config->token));
	explicit_bzero(&config->key, sizeof(config->key));
}
