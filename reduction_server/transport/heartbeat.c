/* Measures how long a lane has been silent. */
#include "reduction_server/transport/heartbeat.h"

#include <stdio.h>

#define PAUSE_PART 2 /* of the limit, and more: for so long the other end may have missed us */
#define LOOKS      4 /* in the limit at least, however late we look */
#define ASKS_AFTER 3 /* part of the limit, */
/*
 * and then at each look. What we have asked may be lost with the link, and is sent again by a
 * network card only after its own time-out, which may be as long as the limit. But the first thing
 * that comes when the link is back shows the other end's card what is missing, and it asks for that
 * at once.
 */
#define ASKS_AGAIN (2 * SMD_HEARTBEAT_POLLS) /* less than from one look to the next */
/*
 * A question waits behind the results or parts that were queued before it, for long on a slow link;
 * while these leave, the other end takes them. Questions and notices alone stay below that from one
 * look to the next.
 */
#define SENT_LEAST 4096u
/*
 * A burst says nothing: the buffers of a stopped process's kernel take it, and what is done again
 * after another server was lost comes just when this one is to be found out. Who lives goes on.
 */
#define GOES_ON_PART 6 /* of the limit at least, */
#define GAP_PART     2 /* with gaps of this at most */

unsigned smd_heartbeat_second_ms = 1000;

void smd_heartbeat_begin(
	struct smd_heartbeat *heartbeat, const struct smd_lane *lane, uint64_t now_ns)
{
	*heartbeat = (struct smd_heartbeat){
		.received = lane->counts.bytes_received,
		.sent = lane->counts.bytes_sent,
		.looked_ns = now_ns,
	};
}

/* Of the silence, when it is asked about next. */
static uint64_t next_question_ns(const struct smd_heartbeat *heartbeat, uint64_t limit_ns)
{
	return heartbeat->asked_ns ? heartbeat->asked_ns + limit_ns / ASKS_AGAIN
				   : limit_ns / ASKS_AFTER;
}

/* It has just taken something, as often before since it was heard of. */
static bool goes_on_taking(struct smd_heartbeat *heartbeat, uint64_t limit_ns)
{
	if (!heartbeat->takes || heartbeat->silent_ns - heartbeat->took_ns > limit_ns / GAP_PART) {
		heartbeat->takes = true;
		heartbeat->takes_from_ns = heartbeat->silent_ns;
	}
	heartbeat->took_ns = heartbeat->silent_ns;
	return heartbeat->silent_ns - heartbeat->takes_from_ns >= limit_ns / GOES_ON_PART;
}

static void note_life(struct smd_heartbeat *heartbeat)
{
	heartbeat->silent_ns = 0;
	heartbeat->asked_ns = 0;
	heartbeat->takes_from_ns = 0;
	heartbeat->took_ns = 0;
}

static uint64_t since(uint64_t heard_ns, uint64_t now_ns, uint64_t most_ns)
{
	uint64_t passed = heard_ns && heard_ns < now_ns ? now_ns - heard_ns : 0;

	return passed < most_ns ? passed : most_ns;
}

enum smd_heartbeat_state smd_heartbeat_poll(struct smd_heartbeat *heartbeat,
	const struct smd_lane *lane, uint64_t now_ns, uint64_t limit_ns)
{
	/*
	 * When we have not polled for long it was us who stood still, and what the other end has
	 * sent meanwhile waits to be read: that is not its silence.
	 */
	uint64_t most = limit_ns / LOOKS;
	uint64_t passed = now_ns - heartbeat->looked_ns;
	uint64_t sent = lane->counts.bytes_sent - heartbeat->sent;

	heartbeat->looked_ns = now_ns;
	heartbeat->sent = lane->counts.bytes_sent;
	if (passed > limit_ns / PAUSE_PART) {
		heartbeat->paused_ns = passed;
		heartbeat->resumed_ns = now_ns;
	}
	if (lane->counts.bytes_received != heartbeat->received) {
		heartbeat->received = lane->counts.bytes_received;
		heartbeat->takes = false;
		note_life(heartbeat);
		heartbeat->silent_ns = since(lane->heard_ns, now_ns, passed < most ? passed : most);
		return SMD_HEARTBEAT_ALIVE;
	}
	heartbeat->silent_ns += passed < most ? passed : most;
	if (sent > SENT_LEAST && goes_on_taking(heartbeat, limit_ns)) {
		note_life(heartbeat);
		return SMD_HEARTBEAT_ALIVE;
	}
	if (heartbeat->silent_ns >= limit_ns) {
		return SMD_HEARTBEAT_SILENT;
	}
	if (heartbeat->silent_ns >= next_question_ns(heartbeat, limit_ns)) {
		heartbeat->asked_ns = heartbeat->silent_ns;
		return SMD_HEARTBEAT_ASK;
	}
	return SMD_HEARTBEAT_ALIVE;
}

uint64_t smd_heartbeat_left_ns(const struct smd_heartbeat *heartbeat, uint64_t limit_ns)
{
	return limit_ns > heartbeat->silent_ns ? limit_ns - heartbeat->silent_ns : 0;
}

uint64_t smd_heartbeat_pause_ns(
	const struct smd_heartbeat *heartbeat, uint64_t now_ns, uint64_t limit_ns)
{
	uint64_t passed = now_ns - heartbeat->looked_ns;

	if (passed > limit_ns / PAUSE_PART) {
		return passed; /* it is only just over, and nobody has looked yet */
	}
	return heartbeat->resumed_ns && now_ns - heartbeat->resumed_ns < limit_ns
		       ? heartbeat->paused_ns
		       : 0;
}

uint64_t smd_heartbeat_limit_ns(unsigned limit_ms)
{
	return (uint64_t)limit_ms * smd_heartbeat_second_ms * 1000u;
}

unsigned smd_heartbeat_period_ms(unsigned limit_ms)
{
	uint64_t period_ms =
		(uint64_t)limit_ms * smd_heartbeat_second_ms / 1000 / SMD_HEARTBEAT_POLLS;

	period_ms = period_ms < smd_heartbeat_second_ms ? period_ms : smd_heartbeat_second_ms;
	return period_ms ? (unsigned)period_ms : 1;
}

const char *smd_heartbeat_text(unsigned limit_ms, char out[SMD_HEARTBEAT_TEXT_MAX])
{
	unsigned fraction = limit_ms % 1000;
	int digits = 3;

	for (; digits && fraction % 10 == 0; digits--) {
		fraction /= 10;
	}
	if (digits) {
		snprintf(out, SMD_HEARTBEAT_TEXT_MAX, "%u.%0*u s", limit_ms / 1000, digits,
			fraction);
	} else {
		snprintf(out, SMD_HEARTBEAT_TEXT_MAX, "%u s", limit_ms / 1000);
	}
	return out;
}

int smd_heartbeat_send(struct smd_lane *lane, enum smd_frame_kind kind)
{
	struct smd_frame frame = {.kind = (uint8_t)kind};

	return smd_lane_send_control(lane, &frame, NULL, 0);
}
