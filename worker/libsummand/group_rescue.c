/* Joins streams at servers that are there, where none of the table is left. */
#include "worker/libsummand/group_rescue.h"

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/log.h"
#include "worker/libsummand/context.h"
#include "worker/libsummand/epoch_rescue.h"
#include "worker/libsummand/group_epoch.h"
#include "worker/libsummand/group_failure.h"
#include "worker/libsummand/group_joining.h"
#include "worker/libsummand/group_rescue_streams.h"

#define DEAD_MS 700u /* a rank that died is named within a second */

static bool comm_may_have_begun(const struct smd_comm *comm)
{
	return comm->state == SMD_COMM_ACTIVE || comm->joined_first;
}

static void comm_fail(struct smd_comm *comm)
{
	char why[SMD_ERROR_TEXT_MAX];

	if (comm->rescue_gone && comm->rescues && comm->waiting_for[0]) {
		snprintf(why, sizeof(why), "%.300s; at another reduction server: %.180s",
			comm->gone.text, comm->waiting_for);
		smd_group_fail(comm, -ECONNRESET, why);
	} else if (comm->rescue_gone) {
		smd_group_fail(comm, -ECONNRESET, comm->gone.text);
	} else if (comm->rescue_why.text[0]) {
		smd_group_fail(comm, comm->rescue_err, comm->rescue_why.text);
	} else if (comm->rescues && comm->waiting_for[0]) {
		snprintf(why, sizeof(why),
			"none is left of those that the group had taken in; at one that is there: "
			"%.120s",
			comm->waiting_for);
		smd_group_fail_lost(comm, -ECONNRESET, why);
	} else if (comm->rescues) {
		uint64_t asked = smd_rescue_asked(comm);
		const char *first = comm->context->targets[__builtin_ctzll(asked)].address;
		bool lost = (asked & ~smd_rescue_lost(comm)) == 0;

		snprintf(why, sizeof(why),
			lost ? "none is left of those that the group had taken in, and %.120s, "
			       "where it was to go on, was lost, too"
			     : "none is left of those that the group had taken in, and not all "
			       "ranks reach %.120s",
			first);
		smd_group_fail_lost(comm, -ECONNRESET, why);
	} else {
		smd_group_fail_alone(comm);
	}
}

/* Told by another rank, this one has a table that serves, as far as it knows. */
static void comm_give_up(struct smd_comm *comm)
{
	if (comm->rescue_told) { /* what others may still be told to go on with stands */
		smd_group_rescue_leave(comm,
			(smd_rescue_over(comm) & ~smd_rescue_lost(comm)) | comm->context->drains);
		smd_group_rescue_stop(comm);
	} else {
		comm_fail(comm);
	}
}

static void comm_on_late(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	comm_give_up(arg);
}

/* At least so long from now. */
static int comm_wait(struct smd_comm *comm, unsigned ms)
{
	const struct timeval patience = {ms / 1000, ms % 1000 * 1000};
	uint64_t until_ns = smd_clock_ns() + ms * (SMD_SECOND_NS / 1000);

	if (until_ns <= comm->rescue_until_ns) {
		return 0;
	}
	comm->rescue_until_ns = until_ns;
	return evtimer_add(comm->rescue_late, &patience) ? -ENOMEM : 0;
}

/* Others may stand still, or find out by silence alone what this rank has seen at once. They may
 * call nothing for a while where they are in poll mode, as this one. A rank that servers have lost
 * is dead, mostly. */
static unsigned find_patience_ms(const struct smd_comm *comm)
{
	const struct smd_config *config = &comm->context->config;

	if (comm->rescue_gone) {
		return DEAD_MS;
	}
	return config->poll ? 1000 * config->connect_timeout_s : config->heartbeat_ms + DEAD_MS;
}

static int comm_begin(struct smd_comm *comm)
{
	struct smd_context *context = comm->context;

	smd_group_rescue_leave(comm, smd_rescue_over(comm));
	smd_progress_lock(&context->progress);
	comm->waiting_for[0] = '\0';
	smd_progress_unlock(&context->progress);
	comm->rescue_late = evtimer_new(context->progress.base, comm_on_late, comm);
	if (!comm->rescue_late || comm_wait(comm, find_patience_ms(comm))) {
		return -ENOMEM;
	}
	smd_context_wake(context);
	return 0;
}

/* Those that are there, and were not asked yet. One that was lost since is not asked again where a
 * record may have it: when it had all ranks, or while others stand, through which that may come. */
static uint64_t find_others(const struct smd_comm *comm)
{
	uint64_t others = smd_context_reach(comm->context) & comm->agreement.closed;
	uint64_t asked = smd_rescue_asked(comm);

	return others &
	       ~(asked & ~smd_rescue_over(comm) ? asked : asked & ~smd_rescue_lost_early(comm));
}

/* Their lanes rest, and have been woken. */
static bool some_rest(const struct smd_comm *comm)
{
	const struct smd_context *context = comm->context;
	uint64_t there = smd_context_first(context->ntargets) & ~(context->lost | context->drains);

	return there & comm->agreement.closed & ~smd_context_reach(context);
}

/* Where one cannot be asked, others may stand. */
static void comm_ask(struct smd_comm *comm)
{
	uint64_t others = find_others(comm);

	smd_group_rescue_leave(comm, others);
	for (unsigned t = 0; t < comm->context->ntargets; t++) {
		const struct smd_epoch_table table = {
			.dead = ~(1ull << t), .scale = comm->now->scale, .rescues = true};

		if (others >> t & 1) {
			(void)smd_group_join_rescue(comm, smd_rescue_id(comm, t), &table);
		}
	}
}

/* With one that it may begin with. */
static bool comm_begins_again(struct smd_comm *comm)
{
	struct smd_context *context = comm->context;
	uint64_t first = smd_context_initial(context) & ~context->absent;

	if (comm_may_have_begun(comm) ||
		!(smd_context_reach(context) & comm->agreement.closed & first)) {
		return false;
	}
	smd_progress_lock(&context->progress);
	comm->begins_again = true;
	smd_progress_unlock(&context->progress);
	smd_group_fail_alone(comm);
	return true;
}

static void comm_go_on(struct smd_comm *comm)
{
	if (!comm->rescue_late || comm->state == SMD_COMM_FAILED || comm_begins_again(comm)) {
		return;
	}
	if (comm_may_have_begun(comm)) {
		comm_ask(comm);
	}
	if ((smd_rescue_asked(comm) & ~smd_rescue_over(comm)) == 0 &&
		!smd_reconnection_tries(comm->context) && !some_rest(comm)) {
		comm_give_up(comm);
	}
}

void smd_group_rescue_all_there(struct smd_comm *comm)
{
	if (comm->rescue_late && !comm->rescue_whole) {
		comm->rescue_whole = true;
		comm->rescue_gone = false;
		(void)comm_wait(comm, 1000 * comm->context->config.connect_timeout_s);
	}
}

static void comm_check_whole(struct smd_comm *comm)
{
	if (!comm->rescue_late || !smd_rescue_whole(comm)) {
		return;
	}
	smd_group_rescue_all_there(comm);
	comm->rescue_told = false;
	if (comm->agreement.closed != UINT64_MAX) { /* which comes back here */
		smd_context_lose(
			comm->context, ~comm->agreement.closed, "it has lost a rank that lives");
	} else if (comm->state == SMD_COMM_JOINING) {
		smd_group_check_joined(comm);
	} else {
		smd_epoch_agreement_rescued(comm);
	}
}

void smd_group_rescue_changed(struct smd_comm *comm)
{
	comm_go_on(comm);
	comm_check_whole(comm);
}

/* Where it stands already: who joins since says it then. */
static void comm_say_lost(const struct smd_comm *comm)
{
	for (const struct smd_epoch *rescue = comm->rescues; rescue; rescue = rescue->next) {
		for (unsigned i = 0; i < rescue->nserving; i++) {
			smd_group_rescue_say_lost(&rescue->flows[rescue->remotes[i]]);
		}
	}
}

static void comm_rescue(struct smd_comm *comm, uint64_t earlier)
{
	if (comm->state == SMD_COMM_FAILED) {
		return;
	}
	if (!comm->rescue_late) {
		smd_log(SMD_LOG_INFO, "libsummand",
			"group %s: none is left of the reduction servers that it had taken in: it "
			"goes on with others, if some are there",
			comm->group);
		if (comm_begin(comm)) {
			smd_group_fail_alone(comm);
			return;
		}
	}
	if ((comm->rescue_gone || comm->rescue_told) &&
		comm->agreement.closed == UINT64_MAX) { /* the others are lost, too */
		comm->rescue_gone = false;
		comm->rescue_told = false;
		(void)comm_wait(comm, find_patience_ms(comm));
	}
	comm_say_lost(comm);
	smd_reconnection_hurry(comm->context, earlier);
	smd_group_rescue_changed(comm);
}

void smd_group_rescue(struct smd_comm *comm, uint64_t last)
{
	comm_rescue(comm, comm->agreement.closed & ~last);
}

bool smd_group_rescue_gone(struct smd_comm *comm, uint64_t last)
{
	if (!comm->rescue_late && smd_group_may_rescue(comm) && comm_may_have_begun(comm)) {
		comm->rescue_gone = true;
		comm_rescue(comm, comm->agreement.closed & ~last);
	} else if (comm->rescue_told) {
		comm->rescue_told = false;
		comm->rescue_gone = true;
		(void)comm_wait(comm, find_patience_ms(comm));
		comm_say_lost(comm);
	}
	return comm->rescue_late != NULL;
}

/* By a rank with this table, or the one before or after it, of which no server is left that both
 * have. A rank that is two epochs further, or one by a rescue, to which all came, is past that. */
static bool comm_is_meant(
	const struct smd_comm *comm, unsigned target, const struct smd_frame *frame)
{
	uint64_t index = comm->now->index;
	uint64_t left = ~comm->now->dead & ~comm->agreement.closed;

	if (frame->ordinal > UINT32_MAX || index > frame->ordinal + 1 || left & ~frame->operation ||
		!(smd_context_reach(comm->context) & comm->agreement.closed & 1ull << target)) {
		return false;
	}
	return frame->chunk == smd_rescue_id(comm, target) &&
	       !(index > frame->ordinal && smd_rescue_made(comm->now));
}

void smd_group_rescue_told(struct smd_comm *comm, unsigned target, const struct smd_frame *frame)
{
	if (comm->rescue_late || !smd_group_may_rescue(comm) || !comm_may_have_begun(comm) ||
		!comm_is_meant(comm, target, frame)) {
		return;
	}
	smd_log(SMD_LOG_INFO, "libsummand",
		"group %s: another rank waits at %s, and has lost all reduction servers that the "
		"group had taken in",
		comm->group, comm->context->targets[target].address);
	comm->rescue_told = true;
	if (comm_begin(comm)) { /* it finds out by itself, later */
		smd_group_rescue_stop(comm);
		return;
	}
	smd_reconnection_hurry(comm->context, comm->agreement.closed); /* others may wait there */
	smd_group_rescue_changed(comm);
}
