/* Answers GET /metrics, and bounds what clients can cost. */
#include "reduction_server/metrics/endpoint.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/queue.h>

#include "reduction_server/base/log.h"
#include "reduction_server/base/parse.h"
#include "reduction_server/base/thread.h"
#include "reduction_server/transport/address.h"
#include "reduction_server/transport/host_header.h"
#include "reduction_server/transport/loop.h"

#define BACKLOG 64
#define HOST    "Host:"

struct client {
	struct smd_metrics_endpoint *endpoint;
	struct bufferevent *stream;
	struct event *limit; /* its time is over */
	bool has_ended;      /* it says no more */
	bool is_answered;
	LIST_ENTRY(client) link;
};

struct smd_metrics_endpoint {
	struct event_base *base;
	struct evconnlistener *listener;
	smd_metrics_write *write;
	void *owner;
	char address[SMD_ADDRESS_TEXT_MAX];
	LIST_HEAD(, client) clients;
	unsigned nclients;
	bool is_for_any_host;
	const char *const *hosts;
	size_t nhosts;
	/* With a thread of its own: */
	bool has_thread;
	pthread_t thread;
	struct smd_wakeup ending;
};

/* ---- a client ---- */

static void client_free(struct client *client)
{
	struct smd_metrics_endpoint *endpoint = client->endpoint;

	LIST_REMOVE(client, link);
	if (endpoint->nclients-- == SMD_METRICS_CONNECTIONS_MAX && endpoint->listener) {
		evconnlistener_enable(endpoint->listener);
	}
	bufferevent_free(client->stream);
	event_free(client->limit);
	free(client);
}

static void client_on_limit(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	client_free(arg);
}

/* Who says no more may still listen. */
static void client_on_event(struct bufferevent *stream, short what, void *arg)
{
	struct client *client = arg;
	bool answers = evbuffer_get_length(bufferevent_get_output(stream)) > 0;

	client->has_ended = true;
	if (!(what & BEV_EVENT_EOF) || client->is_answered || !answers) {
		client_free(client);
	}
}

/* All of the answer has left. To close at once would take it back from a client that is still
 * sending, so the client closes first, or its time ends. */
static void client_on_written(struct bufferevent *stream, void *arg)
{
	struct client *client = arg;

	client->is_answered = true;
	if (client->has_ended || shutdown(bufferevent_getfd(stream), SHUT_WR) != 0) {
		client_free(client);
	}
}

/* What comes behind the request is read and forgotten. */
static void client_on_rest(struct bufferevent *stream, void *arg)
{
	struct evbuffer *input = bufferevent_get_input(stream);

	(void)arg;
	evbuffer_drain(input, evbuffer_get_length(input));
}

static void client_answer(struct client *client, const char *status, const char *type,
	const char *body, size_t length, bool head)
{
	struct evbuffer *output = bufferevent_get_output(client->stream);

	bufferevent_setcb(
		client->stream, client_on_rest, client_on_written, client_on_event, client);
	if (evbuffer_add_printf(output,
		    "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
		    "X-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n%s"
		    "Connection: close\r\n\r\n",
		    status, type, length,
		    strncmp(status, "405", 3) == 0 ? "Allow: GET, HEAD\r\n" : "") < 0 ||
		(!head && evbuffer_add(output, body, length) != 0)) {
		client_free(client);
	}
}

static void client_refuse(struct client *client, const char *status, const char *why)
{
	client_answer(client, status, "text/plain; charset=utf-8", why, strlen(why), false);
}

static void client_answer_metrics(struct client *client, bool head)
{
	struct smd_metrics_text text = {0};

	client->endpoint->write(client->endpoint->owner, &text);
	if (text.failed || !text.bytes) {
		client_refuse(client, "503 Service Unavailable", "out of memory\n");
	} else {
		client_answer(
			client, "200 OK", SMD_METRICS_CONTENT_TYPE, text.bytes, text.length, head);
	}
	smd_metrics_free(&text);
}

/* "GET /metrics HTTP/1.1": its words, in place. */
static void client_answer_line(struct client *client, char *line)
{
	char *rest = NULL;
	const char *method = strtok_r(line, " ", &rest);
	char *path = strtok_r(NULL, " ", &rest);
	const char *version = strtok_r(NULL, " ", &rest);
	bool head;

	if (!version || strtok_r(NULL, " ", &rest) || strncmp(version, "HTTP/1.", 7) != 0) {
		client_refuse(client, "400 Bad Request", "the request must be of HTTP/1.1\n");
		return;
	}
	head = strcmp(method, "HEAD") == 0;
	path[strcspn(path, "?")] = '\0';
	if (!head && strcmp(method, "GET") != 0) {
		client_refuse(client, "405 Method Not Allowed", "the method must be GET or HEAD\n");
	} else if (strcmp(path, "/metrics") == 0) {
		client_answer_metrics(client, head);
	} else {
		client_refuse(client, "404 Not Found", "the path must be /metrics\n");
	}
}

/* Whether it is meant for this endpoint, by the one Host among the headers that follow. */
static bool client_is_meant(const struct smd_metrics_endpoint *endpoint, struct evbuffer *headers)
{
	char name[SMD_HOST_HEADER_NAME_SIZE];
	unsigned count = 0;
	bool is_own = false;
	char *line;

	while ((line = evbuffer_readln(headers, NULL, EVBUFFER_EOL_CRLF)) != NULL && *line) {
		if (strncasecmp(line, HOST, strlen(HOST)) == 0) {
			const char *host = line + strlen(HOST);

			count++;
			is_own = smd_host_header_name(host + strspn(host, " \t"), name) == 0 &&
				 smd_host_header_is_own(name, endpoint->hosts, endpoint->nhosts);
		}
		free(line);
	}
	free(line);
	return endpoint->is_for_any_host || (count == 1 && is_own);
}

/* A request is whole at its first empty line: none that is answered has a body. */
static void client_on_read(struct bufferevent *stream, void *arg)
{
	struct client *client = arg;
	struct evbuffer *input = bufferevent_get_input(stream);
	size_t length = evbuffer_get_length(input);
	bool whole = evbuffer_search(input, "\r\n\r\n", 4, NULL).pos >= 0 ||
		     evbuffer_search(input, "\n\n", 2, NULL).pos >= 0;
	bool is_meant;
	char *line;

	if (length > SMD_METRICS_REQUEST_MAX || (!whole && length == SMD_METRICS_REQUEST_MAX)) {
		client_on_rest(stream, client);
		client_refuse(
			client, "431 Request Header Fields Too Large", "the request is too long\n");
		return;
	}
	if (!whole) {
		return;
	}
	line = evbuffer_readln(input, NULL, EVBUFFER_EOL_CRLF);
	is_meant = client_is_meant(client->endpoint, input);
	client_on_rest(stream, client);
	if (line && !is_meant) {
		client_refuse(client, "421 Misdirected Request",
			"Host must be an address, localhost or a name of this service\n");
	} else if (line) {
		client_answer_line(client, line);
	} else {
		client_free(client);
	}
	free(line);
}

/* ---- the endpoint ---- */

static void endpoint_on_client(struct evconnlistener *listener, evutil_socket_t fd,
	struct sockaddr *address, int size, void *arg)
{
	const struct timeval limit = {SMD_METRICS_SECONDS_MAX, 0};
	struct smd_metrics_endpoint *endpoint = arg;
	struct client *client = calloc(1, sizeof(*client));

	(void)address;
	(void)size;
	if (!client) {
		evutil_closesocket(fd);
		return;
	}
	client->endpoint = endpoint;
	client->stream = bufferevent_socket_new(endpoint->base, fd, BEV_OPT_CLOSE_ON_FREE);
	if (!client->stream) {
		evutil_closesocket(fd);
		goto free_client;
	}
	client->limit = evtimer_new(endpoint->base, client_on_limit, client);
	if (!client->limit || evtimer_add(client->limit, &limit) != 0) {
		goto free_stream;
	}
	LIST_INSERT_HEAD(&endpoint->clients, client, link);
	if (++endpoint->nclients == SMD_METRICS_CONNECTIONS_MAX) {
		evconnlistener_disable(listener); /* the others wait in the kernel's queue */
	}
	bufferevent_setcb(client->stream, client_on_read, NULL, client_on_event, client);
	bufferevent_setwatermark(client->stream, EV_READ, 0, SMD_METRICS_REQUEST_MAX);
	bufferevent_enable(client->stream, EV_READ | EV_WRITE);
	return;

free_stream:
	if (client->limit) {
		event_free(client->limit);
	}
	bufferevent_free(client->stream);
free_client:
	free(client);
}

/* No descriptor is left, for one: it would be tried again at once, and again. */
static void endpoint_on_error(struct evconnlistener *listener, void *arg)
{
	struct smd_metrics_endpoint *endpoint = arg;
	struct client *client = LIST_FIRST(&endpoint->clients);

	(void)listener;
	if (client) {
		client_free(client);
	}
}

/* "PORT" is of the loopback. */
static int endpoint_expand(
	const char *text, char out[SMD_ADDRESS_TEXT_MAX], struct smd_error *error)
{
	char host[256];
	uint64_t number;
	uint16_t port;

	if (smd_parse_number(text, 0, UINT16_MAX, &number) == 0) {
		snprintf(out, SMD_ADDRESS_TEXT_MAX, "127.0.0.1:%u", (unsigned)number);
		return 0;
	}
	if (strlen(text) >= SMD_ADDRESS_TEXT_MAX ||
		smd_parse_endpoint(text, host, sizeof(host), &port)) {
		return smd_error_set(error, EINVAL, "must be ADDR:PORT, or PORT of 127.0.0.1");
	}
	snprintf(out, SMD_ADDRESS_TEXT_MAX, "%s", text);
	return 0;
}

int smd_metrics_address_check(const char *text, struct smd_error *error)
{
	char address[SMD_ADDRESS_TEXT_MAX];

	return endpoint_expand(text, address, error);
}

static int endpoint_listen(
	struct smd_metrics_endpoint *endpoint, const char *text, struct smd_error *error)
{
	char address[SMD_ADDRESS_TEXT_MAX];
	struct sockaddr_storage bound;
	socklen_t size = sizeof(bound);
	const struct addrinfo *info;
	struct addrinfo *list;
	int ret = endpoint_expand(text, address, error);

	ret = ret ? ret : smd_address_resolve(address, AI_PASSIVE, &list, error);
	if (ret) {
		return ret;
	}
	info = smd_address_choose(list);
	errno = 0;
	endpoint->listener = evconnlistener_new_bind(endpoint->base, endpoint_on_client, endpoint,
		LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC | LEV_OPT_REUSEABLE, BACKLOG,
		info->ai_addr, (int)info->ai_addrlen);
	ret = errno ? errno : ENOMEM;
	freeaddrinfo(list);
	if (!endpoint->listener) {
		return smd_error_set(
			error, ret, "--metrics: cannot listen on %s: %s", address, strerror(ret));
	}
	evconnlistener_set_error_cb(endpoint->listener, endpoint_on_error);
	if (getsockname(evconnlistener_get_fd(endpoint->listener), (struct sockaddr *)&bound,
		    &size) != 0) {
		return smd_error_set(error, errno, "--metrics: %s: %m", address);
	}
	endpoint->is_for_any_host = !smd_address_is_loopback((struct sockaddr *)&bound);
	smd_address_print((struct sockaddr *)&bound, size, endpoint->address);
	return 0;
}

int smd_metrics_open(struct event_base *base, const char *address, smd_metrics_write *write,
	void *owner, struct smd_metrics_endpoint **out, struct smd_error *error)
{
	struct smd_metrics_endpoint *endpoint = calloc(1, sizeof(*endpoint));
	int ret;

	if (!endpoint) {
		return smd_error_set(error, ENOMEM, "--metrics: out of memory");
	}
	endpoint->base = base;
	endpoint->write = write;
	endpoint->owner = owner;
	LIST_INIT(&endpoint->clients);
	ret = endpoint_listen(endpoint, address, error);
	if (ret) {
		smd_metrics_close(endpoint);
		return ret;
	}
	smd_log(SMD_LOG_INFO, "metrics", "http://%s/metrics", endpoint->address);
	*out = endpoint;
	return 0;
}

void smd_metrics_name(
	struct smd_metrics_endpoint *endpoint, const char *const *hosts, size_t count)
{
	endpoint->is_for_any_host = false;
	endpoint->hosts = hosts;
	endpoint->nhosts = count;
}

const char *smd_metrics_address(const struct smd_metrics_endpoint *endpoint)
{
	return endpoint->address;
}

static void endpoint_free(struct smd_metrics_endpoint *endpoint)
{
	if (endpoint->listener) {
		evconnlistener_free(endpoint->listener);
		endpoint->listener = NULL;
	}
	while (!LIST_EMPTY(&endpoint->clients)) {
		client_free(LIST_FIRST(&endpoint->clients));
	}
	smd_wakeup_destroy(&endpoint->ending);
}

void smd_metrics_close(struct smd_metrics_endpoint *endpoint)
{
	struct event_base *own = NULL;

	if (!endpoint) {
		return;
	}
	if (endpoint->has_thread) {
		smd_wakeup_signal(&endpoint->ending);
		pthread_join(endpoint->thread, NULL);
		own = endpoint->base;
	}
	endpoint_free(endpoint);
	if (own) {
		event_base_loop(own, EVLOOP_NONBLOCK); /* frees what goes at the end of a turn */
		smd_loop_free(own);
	}
	free(endpoint);
}

/* ---- its thread ---- */

static void endpoint_on_ending(void *owner)
{
	struct smd_metrics_endpoint *endpoint = owner;

	event_base_loopbreak(endpoint->base);
}

static void *endpoint_main(void *arg)
{
	struct smd_metrics_endpoint *endpoint = arg;

	event_base_dispatch(endpoint->base);
	return NULL;
}

int smd_metrics_start(const char *address, smd_metrics_write *write, void *owner,
	struct smd_metrics_endpoint **out, struct smd_error *error)
{
	struct event_base *base = smd_loop_create();
	struct smd_metrics_endpoint *endpoint;
	int ret;

	if (!base) {
		return smd_error_set(error, ENOMEM, "--metrics: out of memory");
	}
	ret = smd_metrics_open(base, address, write, owner, &endpoint, error);
	if (ret) {
		goto free_base;
	}
	ret = smd_wakeup_create(&endpoint->ending, base, endpoint_on_ending, endpoint);
	ret = ret ? ret : smd_thread_start(&endpoint->thread, NULL, endpoint_main, endpoint);
	if (ret) {
		smd_error_set(error, -ret, "--metrics: cannot start a thread: %s", strerror(-ret));
		smd_metrics_close(endpoint);
		goto free_base;
	}
	endpoint->has_thread = true;
	*out = endpoint;
	return 0;

free_base:
	smd_loop_free(base);
	return ret;
}
