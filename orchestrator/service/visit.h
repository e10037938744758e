/*
 * A connection to the service, and the request that it is at: taken within its bounds, piece by piece
 * (libmicrohttpd), until it can be handled. Within the service's HTTP alone.
 */
#ifndef SMD_SERVICE_VISIT_H
#define SMD_SERVICE_VISIT_H

#include <microhttpd.h>
#include <sys/queue.h>

#include "orchestrator/service/http.h"

/* Who may visit. */
struct smd_http_door {
	struct smd_access access;
	int wants_certificate; /* of a client */
};

struct smd_http_visit {
	struct smd_http_request request; /* the first member */
	struct smd_http *http;
	const struct smd_http_door *door;
	struct MHD_Connection *connection;
	char *target;
	char *body;
	size_t size;
	int is_handled;   /* the handler has been called, or there is an answer without it */
	int is_ambiguous; /* it is not sure where it ends */
	int is_suspended;
	int is_known; /* it has brought a request that was let in (strangers.h) */
	int is_ended; /* it has been shut down, and will be gone */
	int fd;
	uint64_t since_ns; /* the connection's start, or that of its last change */
	TAILQ_ENTRY(smd_http_visit) link;
};

/* In the order in which they came. */
TAILQ_HEAD(smd_http_visits, smd_http_visit);

/* Forgets the request: the next one of the connection may come. */
void smd_http_visit_clear(struct smd_http_visit *visit);

/* Line and headers have come. What is answered here is answered before any body. */
void smd_http_visit_begin(struct smd_http_visit *visit, const char *method);

/* Whether the rest of the request is not worth reading, or cannot be told from what follows it. */
int smd_http_visit_is_endless(const struct smd_http_visit *visit);

/* A piece of the body has come. */
void smd_http_visit_take(struct smd_http_visit *visit, const char *bytes, size_t count);

/* The answer as libmicrohttpd sends it; the caller destroys it. NULL: out of memory (response.c). */
struct MHD_Response *smd_http_response(struct smd_answer *answer);

#endif
