/* Listens, runs libmicrohttpd in the caller's loop, and has requests answered. */
#include "orchestrator/service/http.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "orchestrator/service/strangers.h"
#include "reduction_server/base/clock.h"
#include "reduction_server/base/log.h"
#include "reduction_server/transport/address.h"

#define BACKLOG           512
#define CONNECTIONS_MAX   2048
#define CONNECTION_MEMORY ((size_t)24 << 10) /* line and headers of a request */
#define IDLE_S            60u
#define REQUEST_S         120u /* for a whole request, and for an answer to be read */

struct smd_http {
	struct MHD_Daemon *daemon;
	struct event_base *base;
	struct event *ready; /* some connection can be read or written */
	struct event *later; /* libmicrohttpd's own timer, and what has been resumed */
	struct smd_http_door door;
	smd_http_handler *handle;
	smd_http_turn *turn;
	void *arg;
	struct smd_http_figures figures;
	char address[SMD_ADDRESS_TEXT_MAX];
	struct smd_http_visits visits;
};

/* ---- requests ---- */

static enum MHD_Result send_answer(struct smd_http_visit *visit)
{
	const struct smd_answer *answer = &visit->request.answer;
	struct MHD_Response *response = smd_http_response(&visit->request.answer);
	enum MHD_Result result;

	if (!response) {
		return MHD_NO;
	}
	visit->since_ns = smd_clock_ns();
	visit->http->figures.answers[answer->status < 400 ? 0 : answer->status < 500 ? 1 : 2]++;
	result = MHD_queue_response(visit->connection, answer->status, response);
	MHD_destroy_response(response);
	return result;
}

static struct smd_http_visit *visit_of(struct MHD_Connection *connection)
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
	struct smd_http_visit *visit = visit_of(connection);

	(void)url;
	(void)version;
	if (!visit) {
		return MHD_NO;
	}
	if (!*context) {
		*context = visit;
		smd_http_visit_begin(visit, method);
		return visit->is_handled && smd_http_visit_is_endless(visit) ? send_answer(visit) : MHD_YES;
	}
	if (*upload_size > 0) {
		smd_http_visit_take(visit, upload, *upload_size);
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
	struct smd_http_visit *visit = (struct smd_http_visit *)request;
	const struct timeval now = {.tv_sec = 0};

	request->is_waiting = 0;
	visit->is_suspended = 0;
	MHD_resume_connection(visit->connection);
	event_add(visit->http->later, &now);
}

/* ---- connections ---- */

static void *on_target(void *arg, const char *target, struct MHD_Connection *connection)
{
	struct smd_http_visit *visit = visit_of(connection);

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
	struct smd_http_visit *visit = visit_of(connection);

	(void)arg;
	(void)context;
	(void)code;
	if (visit) {
		smd_http_visit_clear(visit);
	}
}

static void open_visit(struct smd_http *http, struct MHD_Connection *connection, void **context)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct smd_http_visit *visit = calloc(1, sizeof(*visit));

	*context = visit;
	if (visit) {
		visit->http = http;
		visit->door = &http->door;
		visit->connection = connection;
		visit->fd = info ? info->connect_fd : -1;
		visit->since_ns = smd_clock_ns();
		TAILQ_INSERT_TAIL(&http->visits, visit, link);
		http->figures.connections++;
		smd_strangers_bound(&http->visits);
	}
}

static void on_connection(void *arg, struct MHD_Connection *connection, void **context,
	enum MHD_ConnectionNotificationCode code)
{
	struct smd_http *http = arg;
	struct smd_http_visit *visit = *context;

	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		open_visit(http, connection, context);
	} else if (visit) {
		TAILQ_REMOVE(&http->visits, visit, link);
		http->figures.connections--;
		smd_http_visit_clear(visit);
		free(visit);
		*context = NULL;
	}
}

void smd_http_tidy(struct smd_http *http)
{
	uint64_t now = smd_clock_ns();
	struct smd_http_visit *visit;

	TAILQ_FOREACH (visit, &http->visits, link) {
		if (!visit->is_suspended && visit->fd >= 0 &&
			now - visit->since_ns > REQUEST_S * SMD_SECOND_NS) {
			shutdown(visit->fd, SHUT_RDWR);
		}
	}
	smd_strangers_tidy(&http->visits, now);
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
	http->door = (struct smd_http_door){.access = options->access,
		.wants_certificate = options->tls_client_ca != NULL};
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
	struct smd_http_visit *visit;

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
