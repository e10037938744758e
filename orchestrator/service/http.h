/*
 * HTTP, by libmicrohttpd: takes requests within their bounds, and sends answers.
 *
 * It runs in the caller's event loop, in one thread. Whoever handles a request answers it at once,
 * or later: then its connection is suspended until smd_http_answer().
 */
#ifndef SMD_SERVICE_HTTP_H
#define SMD_SERVICE_HTTP_H

#include <event2/event.h>
#include <stdint.h>

#include "orchestrator/service/access.h"
#include "orchestrator/service/uri.h"
#include "reduction_server/base/error.h"

#define SMD_HTTP_BODY_MAX ((size_t)4 << 20)
#define SMD_HTTP_CLIENT_SIZE 64

struct smd_http;

enum smd_http_method { SMD_HTTP_GET, SMD_HTTP_POST, SMD_HTTP_DELETE };

struct smd_http_request {
	enum smd_http_method method;
	const char *target; /* as it was sent */
	char client[SMD_HTTP_CLIENT_SIZE]; /* the address of whoever asks */
	const char *host;   /* the name and port that it was sent to; one of this service's */
	struct smd_uri uri;
	const char *body; /* NULL: none; it ends with a NUL behind its length */
	size_t length;
	struct smd_answer answer;
	int is_waiting; /* the handler has set it: the answer comes later */
};

/* Sets the request's answer, or says that it waits. */
typedef void smd_http_handler(void *arg, struct smd_http_request *request);

/* Called when all requests that had come have been handled: some may wait. */
typedef void smd_http_turn(void *arg);

struct smd_http_options {
	const char *listen; /* "HOST:PORT"; port 0 is any free one */
	struct smd_access access;
	/* PEM texts; NULL: no TLS, and no client needs a certificate. */
	const char *tls_cert;
	const char *tls_key;
	const char *tls_client_ca;
};

int smd_http_open(struct event_base *base, const struct smd_http_options *options,
	smd_http_handler *handle, smd_http_turn *turn, void *arg, struct smd_http **out,
	struct smd_error *error);

/* The address that it listens on. */
const char *smd_http_address(const struct smd_http *http);

#define SMD_HTTP_CLASSES 3 /* 2xx, 4xx, 5xx */

struct smd_http_figures {
	uint64_t answers[SMD_HTTP_CLASSES];
	uint64_t connections;
};

const struct smd_http_figures *smd_http_figures_of(const struct smd_http *http);

/* The request that waited has its answer now. */
void smd_http_answer(struct smd_http_request *request);

/* Ends connections that take too long for their requests. */
void smd_http_tidy(struct smd_http *http);

/* Answers all that wait, and ends all connections. */
void smd_http_close(struct smd_http *http);

#endif
