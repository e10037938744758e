/*
 * Bounds what strangers can take of the service's connections: one is a stranger until it has brought
 * a request that is let in, and parts of the page let nobody in. Of too many the one that has been
 * so longest is ended, so whoever has the token finds a place. Within the service's HTTP alone.
 */
#ifndef SMD_SERVICE_STRANGERS_H
#define SMD_SERVICE_STRANGERS_H

#include "orchestrator/service/visit.h"

#define SMD_STRANGERS_MAX 1024 /* so many of one address may begin at once, too: a thousand follow logs */
#define SMD_STRANGER_S    15   /* since it came, or since the service last heard a request of it */

/* One more has come, and is the last of the list. */
void smd_strangers_bound(const struct smd_http_visits *visits);

/* Ends those whose time is over. */
void smd_strangers_tidy(const struct smd_http_visits *visits, uint64_t now_ns);

#endif
