/* Ends lanes, and puts it into words. */
#include "worker/libsummand/remote_loss.h"

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>

#include "reduction_server/base/clock.h"
#include "worker/libsummand/host_memory.h"
#include "worker/libsummand/remote_pair.h"

/* ---- words ---- */

void smd_target_name(const struct smd_target *target, char out[160])
{
	snprintf(out, 160, "reduction server %s", target->address);
}

/* In whole seconds, where there is one. */
static const char *remote_pause_text(uint64_t pause_ns, char out[SMD_HEARTBEAT_TEXT_MAX])
{
	unsigned ms = (unsigned)(pause_ns / smd_heartbeat_limit_ns(1));

	return smd_heartbeat_text(ms > 1000 ? ms - ms % 1000 : ms, out);
}

void smd_remote_explain(
	const struct smd_remote *remote, const char *reason, char out[SMD_ERROR_TEXT_MAX])
{
	const struct smd_config *config = remote->owner->config;
	uint64_t limit_ns = smd_heartbeat_limit_ns(config->heartbeat_ms);
	uint64_t pause_ns = /* a process in poll mode stands still all the time, and may */
		config->poll || !remote->welcomed
			? 0
			: smd_heartbeat_pause_ns(&remote->heartbeat, smd_clock_ns(), limit_ns);
	char pause[SMD_HEARTBEAT_TEXT_MAX];

	if (pause_ns) {
		snprintf(out, SMD_ERROR_TEXT_MAX,
			"this process (%.100s) stood still for %s, and then: %.360s",
			config->replica, remote_pause_text(pause_ns, pause), reason);
	} else {
		snprintf(out, SMD_ERROR_TEXT_MAX, "%s", reason);
	}
}

/* ---- ends ---- */

void smd_remote_fail_with(struct smd_remote *remote, int err, const char *text)
{
	if (remote->target->reconnection.under_way) {
		remote->owner->ops->on_missed(remote->owner, remote->target, err, text);
	} else if (!remote->target->lost) {
		remote->target->lost = true;
		remote->owner->ops->on_failed(remote->owner, remote->target, err, text);
	}
}

void smd_remote_fail(struct smd_remote *remote, int err, const char *what)
{
	char name[160];
	char text[SMD_ERROR_TEXT_MAX];

	smd_target_name(remote->target, name);
	snprintf(text, sizeof(text), "%s %s", name, what);
	smd_remote_fail_with(remote, err, text);
}

/* Sends that come back may end operations, which tell others what is here: not on this lane, and
 * before the flows on it are known to be lost. */
void smd_remote_drop_lane(struct smd_remote *remote)
{
	struct smd_lane *lane = remote->lane;

	smd_lane_counts_add(&remote->ended, &remote->lane->counts);
	smd_remote_pair_end(remote);
	smd_lookout_end(&remote->owner->lookout, &remote->watched);
	smd_turns_end(&remote->turns);
	remote->lane = NULL;
	evtimer_del(remote->retry); /* of one that has not connected */
	smd_lane_close(lane);
	remote->rx_receiver = NULL;
	remote->rx_result = false;
	remote->drains = false; /* what a server has said ends with its lane, */
	remote->unsaid = 0;     /* and what it could not be told */
	remote->owner->ops->on_lane_closed(remote->owner, remote);
}

void smd_remote_lose(struct smd_remote *remote, int err, const char *reason)
{
	char server[160];
	char text[SMD_ERROR_TEXT_MAX];
	char what[SMD_ERROR_TEXT_MAX];

	smd_target_name(remote->target, server);
	if (err == -EFAULT) {
		snprintf(what, sizeof(what),
			"this process (%.100s) " SMD_HOST_MEMORY_REFUSED
			": %.100s, on the lane to %s",
			remote->owner->config->replica, reason, server);
		smd_remote_fail_with(remote, err, what);
		return;
	}
	snprintf(text, sizeof(text), "%s was lost: %.300s", server, reason);
	smd_remote_explain(remote, text, what);
	smd_remote_fail_with(remote, err == -EPROTO ? err : -ECONNRESET, what);
}
