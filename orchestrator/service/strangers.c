/* Ends strangers' connections. */
#include "orchestrator/service/strangers.h"

#include <sys/socket.h>

#include "reduction_server/base/clock.h"

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
	struct smd_http_visit *oldest = NULL;
	struct smd_http_visit *visit;
	unsigned count = 0;

	TAILQ_FOREACH (visit, visits, link) {
		if (is_stranger(visit)) {
			oldest = count++ == 0 ? visit : oldest;
		}
	}
	if (count > SMD_STRANGERS_MAX) {
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
