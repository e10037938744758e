/*
 * A connection to the other end, in clear or over TLS. Inside the room only.
 */
#ifndef SMD_CLIENT_CHANNEL_H
#define SMD_CLIENT_CHANNEL_H

#include <stdint.h>
#include <sys/types.h>

#include "orchestrator/client/exchange.h"

struct smd_channel;

/* All of it ends at the deadline (smd_clock_ns()). 0, or -errno with a text. */
int smd_channel_open(const struct smd_url *url, const struct smd_http_reach *reach,
	uint64_t deadline_ns, struct smd_channel **out, struct smd_error *error);
void smd_channel_close(struct smd_channel *channel);

int smd_channel_write(struct smd_channel *channel, const char *bytes, size_t length,
	struct smd_error *error);

/* How many bytes there were; 0: its end. -errno with a text. */
ssize_t smd_channel_read(
	struct smd_channel *channel, char *bytes, size_t size, struct smd_error *error);

#endif
