/* Takes requests and sends answers. */
#include "orchestrator/service/http.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <microhttpd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#include "orchestrator/service/page.h"
#include "reduction_server/base/clock.h"
#include "reduction_server/base/log.h"
#include "reduction_server/transport/address.h"

#define BACKLOG            512
#define CONNECTIONS_MAX    2048
#define CONNECTION_MEMORY  ((size_t)24 << 10) /* line and headers of a request */
#define IDLE_S             60u
#define REQUEST_S          120u /* for a whole request, and for an answer to be read */
#define STATUS_BAD_METHOD  405
#define STATUS_TOO_LARGE   413
#define STATUS_BAD_REQUEST 400

/* A connection, and the request that it is at. */
struct visit {
	struct smd_http_request request; /* the first member */
	struct smd_http *http;
	struct MHD_Connection *connection;
	char *target;
	char *body;
	size_t size;
	int is_handled;   /* the handler has been called, or there is an answer without it */
	int is_ambiguous; /* it is not sure where it ends */
	int is_suspended;
	int fd;
	uint64_t since_ns; /* the connection's start, or that of its last change */
	TAILQ_ENTRY(visit) link;
};

struct smd_http {
	struct MHD_Daemon *daemon;
	struct event_base *base;
	struct event *ready; /* some connection can be read or written */
	struct event *later; /* libmicrohttpd's own timer, and what has been resumed */
	struct smd_access access;
	int wants_certificate;
	smd_http_handler *handle;
	smd_http_turn *turn;
	void *arg;
	struct smd_http_figures figures;
	char address[SMD_ADDRESS_TEXT_MAX];
	TAILQ_HEAD(, visit) visits;
};

/* ---- a request ---- */

static void clear_request(struct visit *visit)
{
	smd_answer_clear(&visit->request.answer);
	smd_uri_clear(&visit->request.uri);
	free(visit->body);
	free(visit->target);
	visit->request = (struct smd_http_request){.body = NULL};
	visit->body = NULL;
	visit->target = NULL;
	visit->size = 0;
	visit->is_handled = 0;
	visit->is_ambiguous = 0;
	visit->since_ns = smd_clock_ns();
}

static const char *header(const struct visit *visit, const char *name)
{
	return MHD_lookup_connection_value(visit->connection, MHD_HEADER_KIND, name);
}

/* How often headers are there that say where a request goes and where it ends. */
struct framing {
	int hosts;
	int lengths;
	int encodings;
	int tokens;
	int origins;
};

static enum MHD_Result count_header(
	void *arg, enum MHD_ValueKind kind, const char *name, const char *value)
{
	struct framing *framing = arg;

	(void)kind;
	(void)value;
	framing->hosts += strcasecmp(name, "Host") == 0;
	framing->lengths += strcasecmp(name, "Content-Length") == 0;
	framing->encodings += strcasecmp(name, "Transfer-Encoding") == 0;
	framing->tokens += strcasecmp(name, "Authorization") == 0;
	framing->origins += strcasecmp(name, "Origin") == 0;
	return MHD_YES;
}

static int has_certificate(const struct visit *visit)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(visit->connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
	unsigned status = 1;

	return info && info->tls_session &&
	       gnutls_certificate_verify_peers2(info->tls_session, &status) == 0 && status == 0;
}

/* 0; else it has been answered. */
static int check_access(struct visit *visit, const char *method)
{
	struct framing framing = {.hosts = 0};
	struct smd_credentials credentials = {.host = header(visit, "Host"),
		.origin = header(visit, "Origin"),
		.authorization = header(visit, "Authorization"),
		.content_type = header(visit, "Content-Type")};

	MHD_get_connection_values(visit->connection, MHD_HEADER_KIND, count_header, &framing);
	credentials.is_ambiguous = framing.hosts != 1 || framing.lengths + framing.encodings > 1 ||
				   framing.tokens > 1 || framing.origins > 1;
	credentials.is_of_page = strcmp(method, "GET") == 0 && visit->target &&
				 smd_page_find(visit->target) != NULL;
	visit->is_ambiguous = credentials.is_ambiguous;
	if (visit->http->wants_certificate && !has_certificate(visit)) {
		smd_answer_fail(&visit->request.answer, SMD_RPC_UNAUTHENTICATED,
			"the client must have a certificate of the service's authority");
		return -EACCES;
	}
	return smd_access_check(&visit->http->access, &credentials, &visit->request.answer);
}

static int take_method(struct smd_http_request *request, const char *method)
{
	static const char *const names[] = {
		[SMD_HTTP_GET] = "GET", [SMD_HTTP_POST] = "POST", [SMD_HTTP_DELETE] = "DELETE"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(method, names[i]) == 0) {
			request->method = (enum smd_http_method)i;
			return 0;
		}
	}
	smd_answer_refuse(&request->answer, STATUS_BAD_METHOD, SMD_RPC_UNIMPLEMENTED,
		"method must be GET, POST or DELETE");
	return -EINVAL;
}

/* Its line and headers have come. What is answered here is answered before any body. */
static void begin_request(struct visit *visit, const char *method)
{
	struct smd_answer *answer = &visit->request.answer;
	const char *length = header(visit, "Content-Length");

	visit->is_handled = 1; /* unless all is right */
	if (check_access(visit, method) || take_method(&visit->request, method)) {
		return;
	}
	visit->request.target = visit->target;
	if (!visit->target || smd_uri_parse(visit->target, &visit->request.uri)) {
		smd_answer_refuse(answer, STATUS_BAD_REQUEST, SMD_RPC_INVALID_ARGUMENT,
			"the request's target must be a path in printable UTF-8, without empty "
			"parts");
		return;
	}
	if (length && strtoull(length, NULL, 10) > SMD_HTTP_BODY_MAX) {
		smd_answer_refuse(answer, STATUS_TOO_LARGE, SMD_RPC_INVALID_ARGUMENT,
			"the request must have at most %zu bytes", SMD_HTTP_BODY_MAX);
		return;
	}
	visit->is_handled = 0;
}

/* Whether the rest of the request is not worth reading, or cannot be told from what follows it. A
 * short one is read, so that its client, which may be writing still, reads the answer. */
static int is_endless(const struct visit *visit)
{
	const char *length = header(visit, "Content-Length");

	return visit->is_ambiguous || header(visit, "Transfer-Encoding") ||
	       (length && strtoull(length, NULL, 10) > SMD_HTTP_BODY_MAX);
}

static void take_body(struct visit *visit, const char *bytes, size_t count)
{
	size_t needed = visit->request.length + count + 1;

	if (visit->is_handled) {
		return; /* the answer is known, and the rest is not kept */
	}
	if (needed > SMD_HTTP_BODY_MAX + 1) {
		visit->is_handled = 1;
		smd_answer_refuse(&visit->request.answer, STATUS_TOO_LARGE,
			SMD_RPC_INVALID_ARGUMENT, "the request must have at most %zu bytes",
			SMD_HTTP_BODY_MAX);
		return;
	}
	if (needed > visit->size) {
		size_t size = needed < 2 * visit->size ? 2 * visit->size : needed;
		char *body = realloc(visit->body, size);

		if (!body) {
			visit->is_handled = 1;
			smd_answer_fail(&visit->request.answer, SMD_RPC_INTERNAL, "out of memory");
			return;
		}
		visit->body = body;
		visit->size = size;
	}
	memcpy(visit->body + visit->request.length, bytes, count);
	visit->request.length += count;
	visit->body[visit->request.length] = '\0';
	visit->request.body = visit->body;
}

static struct MHD_Response *show_part(const struct smd_page_part *part)
{
	struct MHD_Response *response = MHD_create_response_from_buffer(
		part->length, (void *)part->text, MHD_RESPMEM_PERSISTENT);

	if (response) {
		MHD_add_response_header(response, "Content-Type", part->type);
		MHD_add_response_header(response, "Content-Security-Policy", SMD_PAGE_POLICY);
		MHD_add_response_header(response, "Cross-Origin-Opener-Policy", "same-origin");
		/* It is asked for again each time: another program may have another page. */
		MHD_add_response_header(response, "Cache-Control", "no-cache");
	}
	return response;
}

static struct MHD_Response *write_document(const json_t *body)
{
	char *text = body ? json_dumps(body, JSON_INDENT(2)) : NULL;
	struct MHD_Response *response = text ? MHD_create_response_from_buffer(strlen(text), text,
						       MHD_RESPMEM_MUST_FREE)
					     : NULL;

	if (!response) {
		free(text);
		return NULL;
	}
	MHD_add_response_header(response, "Content-Type", "application/json; charset=UTF-8");
	MHD_add_response_header(response, "Cache-Control", "no-store");
	MHD_add_response_header(
		response, "Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'");
	return response;
}

/* Takes over the descriptor. A browser shows nothing of it: it might be a page. */
static struct MHD_Response *send_file(struct smd_answer *answer)
{
	struct MHD_Response *response = MHD_create_response_from_fd64(answer->size, answer->fd);

	if (response) {
		answer->has_file = 0;
		MHD_add_response_header(response, "Content-Type", "application/octet-stream");
		MHD_add_response_header(response, "Content-Disposition", "attachment");
		MHD_add_response_header(response, "Cache-Control", "no-store");
		MHD_add_response_header(
			response, "Content-Security-Policy", "default-src 'none'; sandbox");
	}
	return response;
}

static enum MHD_Result send_answer(struct visit *visit)
{
	struct smd_answer *answer = &visit->request.answer;
	struct MHD_Response *response = answer->part       ? show_part(answer->part)
					: answer->has_file ? send_file(answer)
							   : write_document(answer->body);
	enum MHD_Result result;

	if (!response) {
		return MHD_NO;
	}
	MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
	MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
	MHD_add_response_header(response, "Cross-Origin-Resource-Policy", "same-origin");
	if (answer->status == MHD_HTTP_UNAUTHORIZED) {
		MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
	}
	visit->since_ns = smd_clock_ns();
	visit->http->figures.answers[answer->status < 400 ? 0 : answer->status < 500 ? 1 : 2]++;
	result = MHD_queue_response(visit->connection, answer->status, response);
	MHD_destroy_response(response);
	return result;
}

static struct visit *visit_of(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return info ? info->socket_context : NULL;
}

/* libmicrohttpd's callback: once for the headers, once for each piece of a body, once at its end,
 * and once more after the connection was suspended. */
static enum MHD_Result on_request(void *arg, struct MHD_Connection *connection, const char *url,
	const char *method, const char *version, const char *upload, size_t *upload_size,
	void **context)
{
	struct smd_http *http = arg;
	struct visit *visit = visit_of(connection);

	(void)url;
	(void)version;
	if (!visit) {
		return MHD_NO;
	}
	if (!*context) {
		*context = visit;
		begin_request(visit, method);
		return visit->is_handled && is_endless(visit) ? send_answer(visit) : MHD_YES;
	}
	if (*upload_size > 0) {
		take_body(visit, upload, *upload_size);
		*upload_size = 0;
		return MHD_YES;
	}
	if (!visit->is_handled) {
		visit->is_handled = 1;
		http->handle(http->arg, &visit->request);
		if (visit->request.is_waiting) {
			visit->is_suspended = 1;
			MHD_suspend_connection(connection);
			return MHD_YES;
		}
	}
	return send_answer(visit);
}

void smd_http_answer(struct smd_http_request *request)
{
	struct visit *visit = (struct visit *)request;
	const struct timeval now = {.tv_sec = 0};

	request->is_waiting = 0;
	visit->is_suspended = 0;
	MHD_resume_connection(visit->connection);
	event_add(visit->http->later, &now);
}

/* ---- connections ---- */

static void *on_target(void *arg, const char *target, struct MHD_Connection *connection)
{
	struct visit *visit = visit_of(connection);

	(void)arg;
	if (visit) {
		free(visit->target);
		visit->target = strdup(target);
	}
	return NULL;
}

static void on_completed(void *arg, struct MHD_Connection *connection, void **context,
	enum MHD_RequestTerminationCode code)
{
	struct visit *visit = visit_of(connection);

	(void)arg;
	(void)context;
	(void)code;
	if (visit) {
		clear_request(visit);
	}
}

static void open_visit(struct smd_http *http, struct MHD_Connection *connection, void **context)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct visit *visit = calloc(1, sizeof(*visit));

	*context = visit;
	if (visit) {
		visit->http = http;
		visit->connection = connection;
		visit->fd = info ? info->connect_fd : -1;
		visit->since_ns = smd_clock_ns();
		TAILQ_INSERT_TAIL(&http->visits, visit, link);
		http->figures.connections++;
	}
}

static void on_connection(void *arg, struct MHD_Connection *connection, void **context,
	enum MHD_ConnectionNotificationCode code)
{
	struct smd_http *http = arg;
	struct visit *visit = *context;

	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		open_visit(http, connection, context);
	} else if (visit) {
		TAILQ_REMOVE(&http->visits, visit, link);
		http->figures.connections--;
		clear_request(visit);
		free(visit);
		*context = NULL;
	}
}

void smd_http_tidy(struct smd_http *http)
{
	uint64_t now = smd_clock_ns();
	struct visit *visit;

	TAILQ_FOREACH (visit, &http->visits, link) {
		if (!visit->is_suspended && visit->fd >= 0 &&
			now - visit->since_ns > REQUEST_S * SMD_SECOND_NS) {
			shutdown(visit->fd, SHUT_RDWR);
		}
	}
}

/* ---- the loop ---- */

/* Arms libmicrohttpd's timer, for it alone knows when. */
static void set_timer(struct smd_http *http)
{
	MHD_UNSIGNED_LONG_LONG ms;

	if (MHD_get_timeout(http->daemon, &ms) == MHD_YES) {
		const struct timeval wait = {
			.tv_sec = (time_t)(ms / 1000), .tv_usec = (suseconds_t)(ms % 1000) * 1000};

		event_add(http->later, &wait);
	}
}

static void on_ready(evutil_socket_t fd, short what, void *arg)
{
	struct smd_http *http = arg;

	(void)fd;
	(void)what;
	MHD_run(http->daemon);
	http->turn(http->arg);
	set_timer(http);
}

static void on_log(void *arg, const char *format, va_list args)
{
	char text[256];

	(void)arg;
	vsnprintf(text, sizeof(text), format, args);
	text[strcspn(text, "\n")] = '\0';
	smd_log(SMD_LOG_DEBUG, "http", "%s", text);
}

/* ---- opening ---- */

static int open_socket(struct smd_http *http, const char *listen_on, struct smd_error *error)
{
	struct sockaddr_storage bound;
	socklen_t size = sizeof(bound);
	struct addrinfo *list;
	const struct addrinfo *chosen;
	int ret = smd_address_resolve(listen_on, AI_PASSIVE, &list, error);
	int fd;

	if (ret) {
		return ret;
	}
	chosen = smd_address_choose(list);
	fd = socket(chosen->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) ||
		bind(fd, chosen->ai_addr, chosen->ai_addrlen) || listen(fd, BACKLOG) ||
		getsockname(fd, (struct sockaddr *)&bound, &size)) {
		ret = smd_error_set(error, errno, "%s: %s", listen_on, strerror(errno));
		if (fd >= 0) {
			close(fd);
		}
	}
	freeaddrinfo(list);
	if (ret) {
		return ret;
	}
	smd_address_print((struct sockaddr *)&bound, size, http->address);
	return fd;
}

static struct MHD_Daemon *start_daemon(
	struct smd_http *http, int fd, const struct smd_http_options *options)
{
	unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
	struct MHD_OptionItem tls[] = {
		{MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)options->tls_cert},
		{MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)options->tls_key},
		{MHD_OPTION_HTTPS_PRIORITIES, 0,
			(void *)"NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"},
		{options->tls_client_ca ? MHD_OPTION_HTTPS_MEM_TRUST : MHD_OPTION_END, 0,
			(void *)options->tls_client_ca},
		{MHD_OPTION_END, 0, NULL},
	};
	struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};

	flags |= options->tls_cert ? MHD_USE_TLS : 0;
	return MHD_start_daemon(flags, 0, NULL, NULL, on_request, http, MHD_OPTION_EXTERNAL_LOGGER,
		on_log, NULL, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_STRICT_FOR_CLIENT, 1,
		MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_MEMORY,
		MHD_OPTION_CONNECTION_TIMEOUT, IDLE_S, MHD_OPTION_NOTIFY_CONNECTION, on_connection,
		http, MHD_OPTION_NOTIFY_COMPLETED, on_completed, http, MHD_OPTION_URI_LOG_CALLBACK,
		on_target, http, MHD_OPTION_ARRAY, options->tls_cert ? tls : none, MHD_OPTION_END);
}

static int open_events(struct smd_http *http)
{
	const union MHD_DaemonInfo *info =
		MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD);

	if (!info) {
		return -ENOTSUP;
	}
	http->ready = event_new(http->base, info->epoll_fd, EV_READ | EV_PERSIST, on_ready, http);
	http->later = event_new(http->base, -1, 0, on_ready, http);
	return http->ready && http->later && event_add(http->ready, NULL) == 0 ? 0 : -ENOMEM;
}

int smd_http_open(struct event_base *base, const struct smd_http_options *options,
	smd_http_handler *handle, smd_http_turn *turn, void *arg, struct smd_http **out,
	struct smd_error *error)
{
	struct smd_http *http = calloc(1, sizeof(*http));
	int fd;
	int ret;

	if (!http) {
		return smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
	}
	http->base = base;
	http->access = options->access;
	http->wants_certificate = options->tls_client_ca != NULL;
	http->handle = handle;
	http->turn = turn;
	http->arg = arg;
	TAILQ_INIT(&http->visits);
	fd = open_socket(http, options->listen, error);
	if (fd < 0) {
		free(http);
		return fd;
	}
	http->daemon = start_daemon(http, fd, options);
	if (!http->daemon) {
		close(fd);
		free(http);
		return smd_error_set(error, EINVAL, "%s: libmicrohttpd does not start%s",
			options->listen,
			options->tls_cert ? ": certificate and key must fit each other" : "");
	}
	ret = open_events(http);
	if (ret) {
		smd_http_close(http);
		return smd_error_set(error, -ret, "%s", strerror(-ret));
	}
	*out = http;
	return 0;
}

const char *smd_http_address(const struct smd_http *http)
{
	return http->address;
}

const struct smd_http_figures *smd_http_figures_of(const struct smd_http *http)
{
	return &http->figures;
}

void smd_http_close(struct smd_http *http)
{
	struct visit *visit;

	TAILQ_FOREACH (visit, &http->visits, link) {
		if (visit->is_suspended) {
			smd_answer_fail(&visit->request.answer, SMD_RPC_UNAVAILABLE,
				"the service is being ended");
			smd_http_answer(&visit->request);
		}
	}
	if (http->ready) {
		event_free(http->ready);
	}
	MHD_run(http->daemon);
	MHD_stop_daemon(http->daemon);
	if (http->later) {
		event_free(http->later);
	}
	free(http);
}
