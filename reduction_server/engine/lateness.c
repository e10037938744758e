/* Looks for ranks that are waited for, and names them. */
#include "reduction_server/engine/lateness.h"

#include <errno.h>
#include <stdio.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/engine/peer.h"
#include "reduction_server/engine/resources.h"

#define FORMING_TELLS                                                                              \
	64 /* members that are told so often; more of them less often, but at least as others are  \
	    */
#define NAMED_RANKS_MAX 8 /* a message lists so many ranks and counts the rest */

/* "ranks 1 (workerpool1-0), 2" of those for which missing() holds; returns how many. */
static unsigned name_missing(
	const struct smd_server_comm *comm, const struct smd_slot *slot, char *text, size_t size)
{
	unsigned missing = 0;
	size_t used = 0;

	text[0] = '\0';
	for (unsigned r = 0; r < comm->nranks; r++) {
		const struct smd_member *member = comm->members[r];

		if (slot ? slot->whole[r] : member != NULL) {
			continue;
		}
		if (missing < NAMED_RANKS_MAX && used < size) {
			used += (size_t)snprintf(text + used, size - used,
				member ? "%srank %u (%.24s)" : "%srank %u", missing ? ", " : "", r,
				member ? smd_peer_replica(member) : "");
		}
		missing++;
	}
	if (missing > NAMED_RANKS_MAX && used < size) {
		snprintf(text + used, size - used, " and %u more", missing - NAMED_RANKS_MAX);
	}
	return missing;
}

/*
 * Each look of a shard costs all members a frame, so large ones would spend more on hearing that
 * they form than on forming.
 */
static uint64_t comm_tell_period_ns(const struct smd_server_comm *comm)
{
	uint64_t period_ns = SMD_FORMING_TELL_S * SMD_SECOND_NS * comm->nranks / FORMING_TELLS;
	uint64_t most_ns = SMD_LATE_MOST_S * SMD_SECOND_NS;

	return period_ns < SMD_FORMING_TELL_S * SMD_SECOND_NS ? SMD_FORMING_TELL_S * SMD_SECOND_NS
	       : period_ns < most_ns                          ? period_ns
							      : most_ns;
}

static void comm_check_forming(struct smd_server_comm *comm, uint64_t now_ns)
{
	uint64_t forms_ns = now_ns - comm->since_ns;
	uint64_t late_ns = comm->resources->late_s * SMD_SECOND_NS;
	bool over = forms_ns >= comm->resources->forming_s * SMD_SECOND_NS;
	bool late = comm->id == 0 && forms_ns >= late_ns && now_ns - comm->warned_ns >= late_ns;
	char ranks[360];
	char text[SMD_ERROR_TEXT_MAX];

	if (!over && now_ns - comm->told_ns < comm_tell_period_ns(comm)) {
		return;
	}
	comm->told_ns = now_ns;
	name_missing(comm, NULL, ranks, sizeof(ranks));
	if (over) {
		snprintf(text, sizeof(text), "group %.100s: %s of %u not joined within %u s",
			comm->name, ranks, comm->nranks, comm->resources->forming_s);
		smd_server_comm_abort(comm, ETIMEDOUT, text);
	} else {
		snprintf(text, sizeof(text), "group %.100s: %s of %u not joined yet", comm->name,
			ranks, comm->nranks);
		comm->warned_ns = late ? now_ns : comm->warned_ns;
		comm->resources->late_reports += late;
		smd_server_comm_tell(comm, NULL, late ? SMD_LOG_WARN : SMD_LOG_DEBUG, text);
	}
}

static void comm_check_active(struct smd_server_comm *comm, uint64_t now_ns)
{
	const struct smd_slot *slot = &comm->slots[comm->done % comm->nslots];
	char ranks[360];
	char text[SMD_ERROR_TEXT_MAX];
	uint64_t late_ns = comm->resources->late_s * SMD_SECOND_NS;
	unsigned missing;

	if (slot->state == SMD_SLOT_GATHERING && now_ns - slot->opened_ns >= late_ns &&
		now_ns - comm->told_ns >= late_ns) {
		comm->told_ns = now_ns;
		comm->resources->late_reports++;
		missing = name_missing(comm, slot, ranks, sizeof(ranks));
		snprintf(text, sizeof(text), "%s %s %llu s late for operation %llu of group %.60s",
			ranks, missing == 1 ? "is" : "are",
			(unsigned long long)((now_ns - slot->opened_ns) / SMD_SECOND_NS),
			(unsigned long long)slot->shape.operation, comm->name);
		smd_server_comm_tell(comm, slot, SMD_LOG_WARN, text);
	}
}

void smd_server_comm_check_late(struct smd_server_comm *comm, uint64_t now_ns)
{
	if (smd_server_comm_lacks_memory(comm)) {
		return; /* all ranks are there */
	}
	if (comm->state == SMD_SERVER_COMM_FORMING) {
		comm_check_forming(comm, now_ns);
	} else if (comm->state == SMD_SERVER_COMM_ACTIVE) {
		comm_check_active(comm, now_ns);
	}
}
