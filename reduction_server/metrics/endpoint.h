/*
 * Where metrics are read: a small HTTP server with one page, GET /metrics.
 *
 * Whoever reaches it may read it and can change nothing. What a client can cost is bounded: so many
 * connections at once, so many bytes of a request, so many seconds for all of it; each connection
 * gets one answer. libevent's evhttp has no limit on connections, nor on the time of a whole
 * request, so this is no evhttp.
 */
#ifndef SMD_METRICS_ENDPOINT_H
#define SMD_METRICS_ENDPOINT_H

#include "reduction_server/base/error.h"
#include "reduction_server/metrics/text.h"

struct event_base;
struct smd_metrics_endpoint;

#define SMD_METRICS_CONNECTIONS_MAX 32
#define SMD_METRICS_REQUEST_MAX     8192 /* bytes */
#define SMD_METRICS_SECONDS_MAX     5    /* for request and answer */

/* Writes all metrics. Called where the endpoint's loop turns. */
typedef void smd_metrics_write(void *owner, struct smd_metrics_text *text);

/* "ADDR:PORT", or "PORT" of this machine's loopback. -EINVAL. */
int smd_metrics_address_check(const char *text, struct smd_error *error);

/* On a loop of the caller's. 0 or -errno with a text. */
int smd_metrics_open(struct event_base *base, const char *address, smd_metrics_write *write,
	void *owner, struct smd_metrics_endpoint **out, struct smd_error *error);

/* On a loop and a thread of its own. */
int smd_metrics_start(const char *address, smd_metrics_write *write, void *owner,
	struct smd_metrics_endpoint **out, struct smd_error *error);

/*
 * What Host may be beside an address and localhost; the list is the caller's, and stays. Without this
 * that is nothing on loopback, which pages of strangers reach by a browser (host_header.h), and
 * anything elsewhere, where Prometheus has names. Only where the caller's loop turns.
 */
void smd_metrics_name(
	struct smd_metrics_endpoint *endpoint, const char *const *hosts, size_t count);

/* "127.0.0.1:41873" */
const char *smd_metrics_address(const struct smd_metrics_endpoint *endpoint);

/* Ends its connections, and its thread. NULL is allowed. */
void smd_metrics_close(struct smd_metrics_endpoint *endpoint);

#endif
