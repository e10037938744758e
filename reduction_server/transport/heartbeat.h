/*
 * Whether the other end of a lane is alive: whatever it sends shows that it is, and so does that it
 * goes on taking what is sent to it. When there is neither it is asked (PING), which it need only
 * answer (PONG).
 *
 * A connection that has broken tells so by itself. This is for an end that is still there and does
 * nothing: stopped, swapped out, cut off without a word. The owner of a lane polls it from time
 * to time, at least SMD_HEARTBEAT_POLLS times in the limit. An owner for whose verdict others wait also
 * polls when the limit is over.
 */
#ifndef SMD_TRANSPORT_HEARTBEAT_H
#define SMD_TRANSPORT_HEARTBEAT_H

#include <stdbool.h>
#include <stdint.h>

#include "reduction_server/transport/transport.h"

#define SMD_HEARTBEAT_LIMIT_DEFAULT_MS  15000 /* of a worker, which others wait for without it */
#define SMD_HEARTBEAT_SERVER_DEFAULT_MS 5000  /* of a server, which others take over from */
#define SMD_HEARTBEAT_LIMIT_LEAST_MS    500
#define SMD_HEARTBEAT_LIMIT_MOST_MS     86400000
#define SMD_HEARTBEAT_LIMITS            "0.5 to 86400 seconds, such as 15, 0.5s or 500ms"
#define SMD_HEARTBEAT_POLLS             12

struct smd_heartbeat {
	uint64_t received; /* bytes that the lane had received at the last poll */
	uint64_t sent;     /* and sent */
	uint64_t looked_ns;
	uint64_t silent_ns; /* since something was received, as far as we were looking */
	uint64_t asked_ns;  /* of that silence, when it was last asked, */
	bool takes;         /* and from when to when it has taken what was sent to it */
	uint64_t takes_from_ns;
	uint64_t took_ns;
	uint64_t paused_ns;  /* how long we had not looked, the last time that this was long, */
	uint64_t resumed_ns; /* and when that ended */
};

enum smd_heartbeat_state {
	SMD_HEARTBEAT_ALIVE,
	SMD_HEARTBEAT_ASK,   /* now is the time for a PING: a third of the limit is over, or more */
	SMD_HEARTBEAT_SILENT /* nothing has come for as long as the limit */
};

void smd_heartbeat_begin(
	struct smd_heartbeat *heartbeat, const struct smd_lane *lane, uint64_t now_ns);

enum smd_heartbeat_state smd_heartbeat_poll(struct smd_heartbeat *heartbeat,
	const struct smd_lane *lane, uint64_t now_ns, uint64_t limit_ns);

/* After that: when the silence will be as long as the limit, which should be looked at then. */
uint64_t smd_heartbeat_left_ns(const struct smd_heartbeat *heartbeat, uint64_t limit_ns);

/* How long we stood still ourselves, until now or less than the limit ago: then the other end may
 * have taken that for our silence. 0: we did not. */
uint64_t smd_heartbeat_pause_ns(
	const struct smd_heartbeat *heartbeat, uint64_t now_ns, uint64_t limit_ns);

/* How long a second of a limit lasts: 1000, but tests that wait for silence make it shorter before
 * there are threads. */
extern unsigned smd_heartbeat_second_ms;

/* What smd_heartbeat_poll() takes for a limit of so many milliseconds. */
uint64_t smd_heartbeat_limit_ns(unsigned limit_ms);

/* How often to poll, in milliseconds: once a second, or more often when the limit is small. */
unsigned smd_heartbeat_period_ms(unsigned limit_ms);

#define SMD_HEARTBEAT_TEXT_MAX 24
/* "15 s", "0.5 s": a limit in messages. */
const char *smd_heartbeat_text(unsigned limit_ms, char out[SMD_HEARTBEAT_TEXT_MAX]);

/* Says PING or PONG. -ENOMEM, -ENOBUFS. */
int smd_heartbeat_send(struct smd_lane *lane, enum smd_frame_kind kind);

#endif
