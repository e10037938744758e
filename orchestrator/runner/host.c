/* Greets agents, and hands on what they say. */
#include "orchestrator/runner/host.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/log.h"
#include "reduction_server/base/printable.h"

#define ENGINE_NS      ((uint64_t)SMD_SECOND_NS) /* for its engine to say why a host is lost */
#define CLOCKS_APART_S 2 /* more is told: times of logs and records are the hosts' own */
#define CLOCKS_MAX_S   300 /* more is refused, as by munge and Kerberos: certificates fail, too */

struct smd_agent_greeting {
	struct smd_greeting_options options;
	struct smd_agent_link *link;
	char where[SMD_FACTS_HOST_SIZE + 8];
};

/* ---- a host ---- */

void smd_run_host_lose(struct smd_run_host *host, const char *reason)
{
	char text[SMD_EXIT_REASON_SIZE];

	if (host->state == SMD_HOST_LOST || host->state == SMD_HOST_CLOSED) {
		return;
	}
	host->state = SMD_HOST_LOST;
	host->over_ns = 0;
	if (strncmp(reason, "host ", 5) == 0) {
		snprintf(text, sizeof(text), "%s", reason);
	} else {
		snprintf(text, sizeof(text), "host %s: %s", host->name, reason);
	}
	smd_printable(text);
	snprintf(host->over, sizeof(host->over), "%s", text);
	smd_agent_link_close(host->link);
	host->link = NULL;
	host->callbacks->on_lost(host->owner, host, text);
}

void smd_run_host_close(struct smd_run_host *host)
{
	if (host->link && host->state == SMD_HOST_READY) {
		smd_agent_link_send_json(host->link, SMD_AGENT_CLOSE, json_object());
		smd_agent_link_flush(host->link);
	}
	if (host->state != SMD_HOST_LOST) {
		host->state = SMD_HOST_CLOSED;
	}
	smd_agent_link_close(host->link);
	host->link = NULL;
}

void smd_run_host_clear(struct smd_run_host *host)
{
	smd_agent_link_close(host->link);
	smd_host_facts_clear(&host->facts);
	free(host->ports);
	*host = (struct smd_run_host){.number = -1};
}

/* One more, for a replica that is added. None is no reason to lose the host. */
static int add_ports(struct smd_run_host *host, const struct smd_agent_message *message)
{
	size_t size = (host->nports + message->nports + 1) * sizeof(*host->ports);
	uint16_t *ports = message->text ? NULL : realloc(host->ports, size);

	host->is_asked = 0;
	if (!ports || message->nports == 0) {
		snprintf(host->no_port, sizeof(host->no_port), "%s",
			message->text ? message->text : strerror(ENOMEM));
	}
	if (ports) {
		memcpy(ports + host->nports, message->ports,
			message->nports * sizeof(*host->ports));
		host->ports = ports;
		host->nports += message->nports;
	}
	return 0;
}

static int take_ports(
	struct smd_run_host *host, struct smd_agent_message *message, struct smd_error *error)
{
	if (host->state == SMD_HOST_READY && host->is_asked) {
		return add_ports(host, message);
	}
	if (host->state != SMD_HOST_GREETED) {
		return smd_error_set(error, EPROTO, "a PORTS frame came that was not asked for");
	}
	if (message->text) {
		return smd_error_set(error, EADDRINUSE, "%s", message->text);
	}
	host->ports = message->ports;
	host->nports = message->nports;
	message->ports = NULL;
	host->state = SMD_HOST_READY;
	return 0;
}

static int take_frame(struct smd_run_host *host, struct smd_agent_message *message,
	struct smd_error *error)
{
	int ret = 0;

	if (message->kind == SMD_AGENT_HELLO) {
		return smd_error_set(error, EPROTO, "a second HELLO frame came");
	}
	if (message->kind == SMD_AGENT_LEAVING) {
		if (!host->leaving[0]) { /* its engine may know more */
			snprintf(host->leaving, sizeof(host->leaving), "%s", message->text);
		}
		return 0;
	}
	if (message->kind == SMD_AGENT_PORTS) {
		ret = take_ports(host, message, error);
	} else if (host->state != SMD_HOST_READY) {
		ret = smd_error_set(error, EPROTO, "a frame came before its time");
	}
	return ret ? ret : host->callbacks->on_message(host->owner, host, message, error);
}

static int on_frame(void *owner, const struct smd_agent_head *head, const uint8_t *body,
	struct smd_error *error)
{
	struct smd_agent_message message;
	int ret = smd_agent_message_decode(&message, head->kind, body, head->length, error);

	ret = ret ? ret : take_frame(owner, &message, error);
	smd_agent_message_clear(&message);
	return ret;
}

static void on_over(void *owner, const char *reason)
{
	struct smd_run_host *host = owner;

	if (host->is_tcp || host->leaving[0]) {
		smd_run_host_lose(host, host->leaving[0] ? host->leaving : reason);
		return;
	}
	snprintf(host->over, sizeof(host->over), "%s", reason);
	host->over_ns = smd_clock_ns();
	smd_agent_link_close(host->link);
	host->link = NULL;
}

unsigned smd_run_host_server_mbps(
	const struct smd_host_facts *facts, const struct smd_host_rails *rails, unsigned servers)
{
	return servers == 0 || facts->nrdma > 0 ? 0 : smd_host_rails_mbps(rails) / servers;
}

int smd_run_host_may_be_lost(const struct smd_run_host *host)
{
	if (host->state != SMD_HOST_READY) {
		return 0;
	}
	return host->link ? smd_agent_link_is_quiet(host->link) : host->over_ns > 0;
}

unsigned smd_run_host_server_parts(
	const struct smd_host_facts *facts, const struct smd_host_rails *rails, unsigned servers)
{
	return rails->each[0].interface->is_loopback || facts->nrdma == 0 ? 0 : servers;
}

void smd_run_host_turn(struct smd_run_host *host)
{
	if (host->over_ns && smd_clock_ns() - host->over_ns >= ENGINE_NS) {
		smd_run_host_lose(host, host->over);
	}
}

static const struct smd_agent_link_callbacks host_callbacks = {
	.on_frame = on_frame, .on_over = on_over};

/* ---- greeting ---- */

void smd_greeting_close(struct smd_agent_greeting *greeting)
{
	smd_agent_link_close(greeting->link);
	free(greeting);
}

static void end_greeting(struct smd_agent_greeting *greeting)
{
	const struct smd_greeting_options options = greeting->options;

	options.on_done(options.owner, greeting);
	smd_greeting_close(greeting);
}

/* What is known of the agent decides whether a job is lost with it, or a stranger turned away. */
static void give_up(struct smd_agent_greeting *greeting, const char *reason)
{
	if (greeting->options.host) {
		smd_run_host_lose(greeting->options.host, reason);
	} else {
		smd_log(SMD_LOG_WARN, "runner", "%s: %s", greeting->where, reason);
	}
	end_greeting(greeting);
}

static void greeting_over(void *owner, const char *reason)
{
	give_up(owner, reason);
}

static int ignore_frame(void *owner, const struct smd_agent_head *head, const uint8_t *body,
	struct smd_error *error)
{
	(void)owner;
	(void)head;
	(void)body;
	return smd_error_set(error, EPROTO, "it was refused");
}

static void ignore_end(void *owner, const char *reason)
{
	(void)owner;
	(void)reason;
}

static const struct smd_agent_link_callbacks refused_callbacks = {
	.on_frame = ignore_frame, .on_over = ignore_end};

static void send_refusal(struct smd_agent_greeting *greeting, const char *text)
{
	smd_agent_link_hand_over(greeting->link, &refused_callbacks, NULL);
	smd_agent_link_send_json(greeting->link, SMD_AGENT_REFUSE, json_pack("{s:s}", "text", text));
	smd_agent_link_flush(greeting->link);
}

static void refuse(struct smd_agent_greeting *greeting, const char *text)
{
	send_refusal(greeting, text);
	give_up(greeting, text);
}

/* Nobody need know of it: it was called, and the job ended before it came. */
static void send_away(struct smd_agent_greeting *greeting)
{
	send_refusal(greeting, "the job is over");
	end_greeting(greeting);
}

/* How many seconds the agent's clock is ahead. */
static double clocks_apart(const struct smd_host_facts *facts)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (double)facts->clock_ns / SMD_SECOND_NS -
	       ((double)now.tv_sec + (double)now.tv_nsec / SMD_SECOND_NS);
}

static void look_at_clock(const struct smd_run_host *host)
{
	double apart = clocks_apart(&host->facts);

	if (apart > CLOCKS_APART_S || apart < -CLOCKS_APART_S) {
		smd_log(SMD_LOG_WARN, "runner",
			"host %s: its clock is %.0f s %s this machine's; times that its replicas "
			"tell are by that",
			host->name, apart < 0 ? -apart : apart, apart < 0 ? "behind" : "ahead of");
	}
}

static void take_agent(
	struct smd_agent_greeting *greeting, struct smd_run_host *host, struct smd_agent_message *message)
{
	host->link = greeting->link;
	greeting->link = NULL;
	host->facts = message->facts;
	message->facts = (struct smd_host_facts){.cpus = 0};
	/* Messages call it as its engine does, not as it calls itself. */
	snprintf(host->facts.name, sizeof(host->facts.name), "%s", host->name);
	host->state = SMD_HOST_GREETED;
	smd_agent_link_hand_over(host->link, &host_callbacks, host);
	smd_agent_link_send_json(host->link, SMD_AGENT_WELCOME, smd_agent_welcome_encode());
	look_at_clock(host);
	end_greeting(greeting);
	host->callbacks->on_greeted(host->owner, host);
}

/* Whoever knows the key is an agent of this job: it will not come again. */
static void refuse_host(
	struct smd_agent_greeting *greeting, const struct smd_agent_message *message, char *text)
{
	struct smd_error error = {""};
	struct smd_run_host *host = greeting->options.host;

	smd_printable(text);
	if (!host) {
		host = greeting->options.find(greeting->options.owner, message->host, &error);
	}
	if (host && host->state == SMD_HOST_EXPECTED) {
		smd_run_host_lose(host, text);
	}
	refuse(greeting, text);
}

static void take_hello(struct smd_agent_greeting *greeting, struct smd_agent_message *message)
{
	struct smd_run_host *host = greeting->options.host;
	struct smd_error error = {""};
	char text[SMD_EXIT_REASON_SIZE];
	double apart;

	if (message->protocol != SMD_AGENT_PROTOCOL ||
		strcmp(message->version, SUMMAND_VERSION) != 0) {
		snprintf(text, sizeof(text),
			"host %s: summand-agent must speak protocol %d and be of version %s, as "
			"this summand, got protocol %d, version %.32s",
			host ? host->name : message->name, SMD_AGENT_PROTOCOL, SUMMAND_VERSION,
			message->protocol, message->version);
		refuse_host(greeting, message, text);
		return;
	}
	apart = clocks_apart(&message->facts);
	if (apart > CLOCKS_MAX_S || apart < -CLOCKS_MAX_S) {
		snprintf(text, sizeof(text),
			"host %s: its clock must be within %d s of this machine's, got %.0f s %s it: "
			"set both by NTP",
			host ? host->name : message->facts.name, CLOCKS_MAX_S,
			apart < 0 ? -apart : apart, apart < 0 ? "behind" : "ahead of");
		refuse_host(greeting, message, text);
		return;
	}
	if (!host) {
		host = greeting->options.find(greeting->options.owner, message->host, &error);
	} else if (host->number != message->host) {
		smd_error_set(&error, EPROTO, "its agent must say that it is number %d, got %d",
			host->number, message->host);
	}
	if (host && host->state != SMD_HOST_EXPECTED) {
		smd_error_set(&error, ESRCH,
			"an agent came that says it is of host number %d, and none is waited for",
			message->host);
	}
	if (host && host->state == SMD_HOST_CLOSED) {
		send_away(greeting);
	} else if (error.text[0]) {
		refuse(greeting, error.text);
	} else {
		take_agent(greeting, host, message);
	}
}

/* The first frame: the greeting is gone afterwards. */
static int on_greeting(void *owner, const struct smd_agent_head *head, const uint8_t *body,
	struct smd_error *error)
{
	struct smd_agent_message message;
	int ret = head->kind == SMD_AGENT_HELLO
			  ? smd_agent_message_decode(&message, head->kind, body, head->length, error)
			  : -EPROTO;

	if (head->kind != SMD_AGENT_HELLO) {
		return smd_error_set(error, EPROTO, "the first frame must be HELLO");
	}
	if (!ret) {
		take_hello(owner, &message);
	}
	smd_agent_message_clear(&message);
	return ret;
}

static const struct smd_agent_link_callbacks greeting_callbacks = {
	.on_frame = on_greeting, .on_over = greeting_over};

int smd_greeting_open(struct smd_agent_greeting **out, struct event_base *base,
	const struct smd_greeting_options *options, struct smd_error *error)
{
	struct smd_agent_greeting *greeting = calloc(1, sizeof(*greeting));
	const struct smd_agent_link_options link = {.end = SMD_AGENT_RUNNER,
		.read_fd = options->read_fd,
		.write_fd = options->write_fd,
		.key = options->key,
		.silence_ms = options->silence_ms,
		.callbacks = &greeting_callbacks,
		.owner = greeting};
	int ret;

	if (!greeting) {
		return smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
	}
	greeting->options = *options;
	snprintf(greeting->where, sizeof(greeting->where), "%s", options->where);
	ret = smd_agent_link_open(&greeting->link, base, &link, error);
	if (ret) {
		free(greeting);
		return ret;
	}
	*out = greeting;
	return 0;
}
