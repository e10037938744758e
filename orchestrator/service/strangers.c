/* Ends strangers' connections. */
#include "orchestrator/service/strangers.h"

#include <sys/socket.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/transport/address.h"

static const struct sockaddr *address_of(const struct smd_http_visit *visit)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(visit->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);

	return info ? info->client_addr : NULL;
}

static int is_stranger(const struct smd_http_visit *visit)
{
	return !visit->is_known && !visit->is_ended && visit->fd >= 0;
}

/* libmicrohttpd finds the connection's end, and lets it go. */
static void end(struct smd_http_visit *visit)
{
	visit->is_ended = 1;
	shutdown(visit->fd, SHUT_RDWR);
}

void smd_strangers_bound(const struct smd_http_visits *visits)
{
	const struct smd_http_visit *last = TAILQ_LAST(visits, smd_http_visits);
	const struct sockaddr *address = last ? address_of(last) : NULL;
	struct smd_http_visit *oldest = NULL, *oldest_of_host = NULL;
	struct smd_http_visit *visit;
	unsigned count = 0, count_of_host = 0;

	TAILQ_FOREACH (visit, visits, link) {
		const struct sockaddr *other = is_stranger(visit) ? address_of(visit) : NULL;

		if (!is_stranger(visit)) {
			continue;
		}
		oldest = count++ == 0 ? visit : oldest;
		if (address && other && smd_address_same_host(address, other)) {
			oldest_of_host = count_of_host++ == 0 ? visit : oldest_of_host;
		}
	}
	if (count_of_host > SMD_STRANGERS_HOST_MAX) {
		end(oldest_of_host);
	} else if (count > SMD_STRANGERS_MAX) {
		end(oldest);
	}
}

void smd_strangers_tidy(const struct smd_http_visits *visits, uint64_t now_ns)
{
	struct smd_http_visit *visit;

	TAILQ_FOREACH (visit, visits, link) {
		if (is_stranger(visit) && now_ns - visit->since_ns > SMD_STRANGER_S * SMD_SECOND_NS) {
			end(visit);
		}
	}
}
