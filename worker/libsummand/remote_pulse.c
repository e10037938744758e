/* Asks a shard that says nothing, and gives up one that does not answer. */
#include "worker/libsummand/remote_pulse.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>

#include "reduction_server/base/clock.h"
#include "worker/libsummand/remote_loss.h"

#define MS_NS 1000000u

static void remote_ask(struct smd_remote *remote)
{
	/* Or silence is the end; the answer to the next one is then taken for this one's. */
	remote->stall.asked += smd_heartbeat_send(remote->lane, SMD_FRAME_PING) == 0;
}

/* It answers; does it work? */
static void remote_check_stall(struct smd_remote *remote)
{
	unsigned limit_ms = 2 * SMD_LATE_MOST_S * 1000 + remote->owner->config->heartbeat_ms;
	char limit[SMD_HEARTBEAT_TEXT_MAX];
	bool owed = remote->owner->ops->is_owed(remote->owner, remote);
	char text[128];

	switch (smd_stall_poll(
		&remote->stall, owed, smd_clock_ns(), smd_heartbeat_limit_ns(limit_ms))) {
	case SMD_STALL_ASKED:
	case SMD_STALL_LAST:
		remote_ask(remote);
		break;
	case SMD_STALL_OVER:
		smd_remote_drop_lane(remote);
		snprintf(text, sizeof(text),
			"was lost: it answers, but for %s it has neither worked nor said who is "
			"late",
			smd_heartbeat_text(limit_ms, limit));
		smd_remote_fail(remote, -ECONNRESET, text);
		break;
	case SMD_STALL_NONE:
	case SMD_STALL_COUNTING:
		break;
	}
}

/* Whoever waits for an answer would wait for ever. */
static void remote_end_unsaid(struct smd_remote *remote)
{
	int err = remote->unsaid;

	smd_remote_drop_lane(remote);
	if (err == -ENOBUFS) {
		smd_remote_fail(remote, -ECONNRESET,
			"was lost: it does not take what it is told, and no more can wait for it");
	} else {
		smd_remote_fail(remote, err, "could not be told something: out of memory");
	}
}

/* When its silence may be over the limit. */
static unsigned remote_next_look_ms(const struct smd_remote *remote, uint64_t limit_ns)
{
	uint64_t ms = smd_heartbeat_left_ns(&remote->heartbeat, limit_ns) / MS_NS + 1;

	return ms < UINT_MAX ? (unsigned)ms : UINT_MAX;
}

static unsigned remote_look(struct smd_looked_at *watched)
{
	struct smd_remote *remote =
		(struct smd_remote *)((char *)watched - offsetof(struct smd_remote, watched));
	unsigned limit_ms = remote->owner->config->heartbeat_ms;
	uint64_t limit_ns = smd_heartbeat_limit_ns(limit_ms);
	enum smd_heartbeat_state state;
	char limit[SMD_HEARTBEAT_TEXT_MAX];
	unsigned next_ms;
	char text[64];

	if (remote->unsaid) {
		remote_end_unsaid(remote);
		return 0;
	}
	if (remote->drains) { /* what it asks for may not have been possible before */
		remote->owner->ops->on_drains(remote->owner, remote->target);
	}
	state = smd_heartbeat_poll(&remote->heartbeat, remote->lane, smd_clock_ns(), limit_ns);
	next_ms = remote_next_look_ms(remote, limit_ns); /* before anything ends the remote */
	switch (state) {
	case SMD_HEARTBEAT_ALIVE:
		remote_check_stall(remote);
		break;
	case SMD_HEARTBEAT_ASK:
		remote_ask(remote);
		remote_check_stall(remote);
		break;
	case SMD_HEARTBEAT_SILENT:
		smd_remote_drop_lane(remote);
		remote->target->silent = true;
		snprintf(text, sizeof(text), "was lost: it has been silent for %s",
			smd_heartbeat_text(limit_ms, limit));
		smd_remote_fail(remote, -ECONNRESET, text);
		break;
	}
	return next_ms;
}

int smd_remote_watch(struct smd_remote *remote)
{
	struct smd_remote_owner *owner = remote->owner;

	remote->watched.look = remote_look;
	smd_heartbeat_begin(&remote->heartbeat, remote->lane, smd_clock_ns());
	remote->stall = (struct smd_stall){.looked_ns = smd_clock_ns()};
	return smd_lookout_begin(&owner->lookout, owner->progress->base,
		smd_heartbeat_period_ms(owner->config->heartbeat_ms), &remote->watched);
}
