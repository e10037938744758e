/* Chooses what a lane is tried over, and what after that. */
#include "worker/libsummand/remote_transport.h"

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/log.h"
#include "worker/libsummand/remote_pair.h"

/* From that one on, the first that may lead to its server; as many as there are: none. */
static unsigned next_transport(const struct smd_remote *remote, unsigned from)
{
	const struct smd_remote_owner *owner = remote->owner;

	while (from < owner->config->ntransports &&
		(owner->found[from].absent || smd_fabric_is_silent(&owner->found[from].fabric,
						      &remote->target->ends[from]))) {
		from++;
	}
	return from;
}

unsigned smd_remote_first_transport(const struct smd_remote *remote)
{
	return next_transport(remote, remote->transport);
}

/* The next transport must have its time too, which is short where a server is there again. */
static bool remote_has_time(const struct smd_remote *remote)
{
	const struct smd_remote_owner *owner = remote->owner;
	uint64_t now_ns = smd_clock_ns();

	return !remote->target->reconnection.under_way &&
	       (now_ns >= owner->deadline_ns ||
		       owner->deadline_ns - now_ns >= owner->connect_s * SMD_SECOND_NS / 2);
}

/* A lane that goes another way stays there for as long as it lasts. */
static bool remote_repeats(struct smd_remote *remote, int err, const char *reason)
{
	const struct smd_transport_ops *ops = remote->owner->config->transports[remote->transport];
	char server[160];

	if (!smd_transport_error_passes(err) || !smd_transport_is_made(ops) || remote->repeated ||
		smd_remote_first_transport(remote) != remote->transport ||
		!remote_has_time(remote)) {
		return false;
	}
	remote->repeated = true;
	if (smd_remote_connects_over(remote) == ops) {
		remote->tries++; /* where it has several addresses, elsewhere */
	}
	smd_target_name(remote->target, server);
	smd_log(SMD_LOG_INFO, "libsummand", "lane to %s, shard %u: tries %s again: %s", server,
		remote->shard, ops->name, reason);
	event_active(remote->retry, EV_TIMEOUT, 1);
	return true;
}

/* A bit for each thing that may be wrong with this process's own device. The other lanes find the same.
 * 0: with something else, or with a device that lanes were made with before. */
static unsigned own_lack(const struct smd_found *found, int err)
{
	if (found->had) {
		return 0;
	}
	switch (err) {
	case -ENODEV:
		return 1u << 0;
	case -EPROTONOSUPPORT: /* none is InfiniBand or RoCE, */
		return 1u << 1;
	case -ENETDOWN: /* has a port that is up, */
		return 1u << 2;
	case -ENOTSUP: /* or can what lanes need */
		return 1u << 3;
	default:
		return 0;
	}
}

/* What the device lacks is said once, and not for each lane. */
static void remote_tell_next(
	const struct smd_remote *remote, unsigned next, int err, const char *reason)
{
	const struct smd_config *config = remote->owner->config;
	struct smd_found *found = &remote->owner->found[remote->transport];
	const char *name = config->transports[remote->transport]->name;
	unsigned lack = own_lack(found, err);
	char server[160];

	if (lack & ~found->told) {
		found->told |= lack;
		smd_log(SMD_LOG_INFO, "libsummand", "lanes go over %s and not over %s: %s",
			config->transports[next]->name, name, reason);
		return;
	}
	smd_target_name(remote->target, server);
	smd_log(lack || err == -EXDEV ? SMD_LOG_DEBUG : SMD_LOG_INFO, "libsummand",
		"lane to %s, shard %u: tries %s after %s: %s", server, remote->shard,
		config->transports[next]->name, name, reason);
}

/* Some lane to it is over that transport. */
static bool target_uses(const struct smd_target *target, unsigned transport)
{
	for (unsigned i = 0; i < target->nremotes; i++) {
		const struct smd_remote *remote = target->remotes[i];

		if (remote && remote->lane && remote->welcomed && remote->transport == transport) {
			return true;
		}
	}
	return false;
}

static void remote_tell_vain(const struct smd_remote *remote, unsigned next, const char *reason)
{
	const struct smd_config *config = remote->owner->config;
	const char *tried = config->transports[remote->transport]->name;
	char server[160];

	smd_target_name(remote->target, server);
	if (target_uses(remote->target, remote->transport)) {
		smd_log(SMD_LOG_WARN, "libsummand",
			"%u lanes to %s could not be made over %s, and the rest go over %s: %s",
			SMD_FABRIC_VAIN_LANES, server, tried, config->transports[next]->name,
			reason);
	} else if (smd_remote_connects_over(remote) == config->transports[remote->transport]) {
		smd_log(SMD_LOG_WARN, "libsummand",
			"lanes to %s go over %s: it does not answer over %s: %s", server,
			config->transports[next]->name, tried, reason);
	} else {
		smd_log(SMD_LOG_WARN, "libsummand",
			"lanes to %s go over %s: both ends have what %s needs, and nothing comes "
			"over it: %s",
			server, config->transports[next]->name, tried, reason);
	}
}

/* The other lanes of its server, or all, would wait as long, a few at a time. */
static void remote_spare_others(struct smd_remote *remote, unsigned next, const char *reason)
{
	const struct smd_config *config = remote->owner->config;
	struct smd_target *target = remote->target;
	unsigned tried = remote->transport;
	struct smd_fabric *fabric = &remote->owner->found[tried].fabric;
	enum smd_fabric_news news =
		smd_fabric_in_vain(fabric, &target->ends[tried], target_uses(target, tried));

	if (news != SMD_FABRIC_NO_NEWS) {
		remote_tell_vain(remote, next, reason);
	}
	if (news == SMD_FABRIC_SILENT) {
		smd_log(SMD_LOG_WARN, "libsummand",
			"nothing comes over %s from %u servers: lanes to all servers go over %s",
			config->transports[tried]->name, fabric->vain,
			config->transports[next]->name);
	}
}

void smd_remote_transport_works(struct smd_remote *remote)
{
	struct smd_found *found = &remote->owner->found[remote->transport];
	bool made = smd_transport_is_made(remote->lane->ops);

	smd_fabric_crosses(&found->fabric, &remote->target->ends[remote->transport]);
	found->had |= made;
	remote->target->made |= made;
}

void smd_remote_transport_returns(struct smd_target *target)
{
	for (unsigned i = 0; target->made && i < SMD_TRANSPORTS_MAX; i++) {
		smd_far_end_returns(&target->ends[i]);
	}
}

bool smd_remote_try_next(struct smd_remote *remote, int err, const char *reason, bool asked)
{
	struct smd_found *found = &remote->owner->found[remote->transport];
	unsigned next;

	if (remote_repeats(remote, err, reason)) {
		return true;
	}
	next = next_transport(remote, remote->transport + 1);
	if (next == remote->owner->config->ntransports) {
		return false;
	}
	remote_tell_next(remote, next, err, reason);
	if (err == -ENODEV && !found->had) { /* nor will the other lanes */
		found->absent = true;
	}
	if (err == -ETIMEDOUT && asked) {
		remote_spare_others(remote, next, reason);
	}
	remote->transport = next;
	snprintf(remote->reason, sizeof(remote->reason), "%s", reason);
	event_active(remote->retry, EV_TIMEOUT, 1);
	return true;
}
