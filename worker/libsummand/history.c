/* Keeps copies in a ring. */
#include "worker/libsummand/history.h"

#include <errno.h>
#include <stdlib.h>

#include "reduction_server/base/cache_line.h"
#include "worker/libsummand/flow.h"

bool smd_history_takes(const struct smd_deal *deal, unsigned nranks, size_t bytes)
{
	uint64_t together = (uint64_t)deal->mean_mbps * deal->nshards;

	return bytes <= SMD_HISTORY_COPY ||
	       (bytes <= SMD_HISTORY_COPY_SLOW &&
		       together <= (uint64_t)SMD_HISTORY_SLOW_MBPS * nranks);
}

int smd_history_create(struct smd_history *history)
{
	history->entries = calloc(SMD_HISTORY_ENTRIES, sizeof(*history->entries));
	return history->entries ? 0 : -ENOMEM;
}

void smd_history_destroy(struct smd_history *history)
{
	free(history->bytes);
	free(history->entries);
}

bool smd_kept_is_stable(const struct smd_kept *kept)
{
	/* That all have returned says nothing of a stream in which what they had is done again. */
	return (!kept->outside && kept->shape.operation < kept->flow->comm->ended) ||
	       smd_flow_is_stable(kept->flow, kept->ordinal);
}

void smd_history_release(struct smd_history *history)
{
	while (history->first < history->next) {
		const struct smd_kept *kept = smd_history_entry(history, history->first);

		if (!smd_kept_is_stable(kept)) {
			return;
		}
		history->freed = kept->copied ? kept->end : history->freed;
		history->used -= kept->copied;
		history->first++;
	}
}

uint8_t *smd_history_room(struct smd_history *history, size_t bytes)
{
	if (!history->bytes) { /* many communicators never keep anything */
		history->bytes = smd_cache_lines_allocate(SMD_HISTORY_BYTES);
	}
	if (!history->bytes) {
		return NULL;
	}
	if (history->used == 0) { /* begin with memory that has just been used */
		history->at = 0;
		history->freed = 0;
	}
	if (bytes == 0) {
		return history->bytes + history->at;
	}
	if (history->used == 0 || history->at > history->freed) {
		if (SMD_HISTORY_BYTES - history->at >= bytes) {
			return history->bytes + history->at;
		}
		return history->freed > bytes ? history->bytes : NULL;
	}
	return history->freed > history->at + bytes ? history->bytes + history->at : NULL;
}

void smd_history_add(struct smd_history *history, const uint8_t *room)
{
	struct smd_kept *kept = smd_history_entry(history, history->next++);

	kept->bytes = room;
	kept->copied = kept->length;
	kept->end = smd_cache_lines((size_t)(room - history->bytes) + kept->length);
	history->at = kept->end;
	history->used += kept->length;
}

void smd_history_add_outside(struct smd_history *history)
{
	struct smd_kept *kept = smd_history_entry(history, history->next++);

	kept->outside = true;
	kept->copied = 0;
	kept->end = history->at;
}
