/* Gives those who have frames for a lane their turns. */
#include "reduction_server/transport/turns.h"

#define UNSENT_US          1000u
#define UNSENT_LEAST_BYTES (128ull << 10)
#define UNSENT_MOST_BYTES  (4ull << 20)

void smd_turns_begin(struct smd_turns *turns, struct smd_lane *lane)
{
	*turns = (struct smd_turns){.lane = lane};
	TAILQ_INIT(&turns->small);
	TAILQ_INIT(&turns->large);
}

void smd_turns_pace(struct smd_turns *turns, uint32_t mbps)
{
	uint64_t bytes = (uint64_t)mbps * UNSENT_US / 8; /* Mbit/s are bytes in 8 us */

	bytes = bytes < UNSENT_LEAST_BYTES ? UNSENT_LEAST_BYTES : bytes;
	bytes = bytes > UNSENT_MOST_BYTES ? UNSENT_MOST_BYTES : bytes;
	smd_lane_limit_unsent(turns->lane, (uint32_t)bytes);
}

static struct smd_turn_queue *turns_queue(struct smd_turns *turns, const struct smd_turn *turn)
{
	return turn->bytes <= SMD_TURN_SMALL ? &turns->small : &turns->large;
}

void smd_turns_forget(struct smd_turns *turns, struct smd_turn *turn)
{
	if (turn->waits) {
		TAILQ_REMOVE(turns_queue(turns, turn), turn, link);
		turn->waits = false;
	}
}

static void turns_forget_all(struct smd_turns *turns, struct smd_turn_queue *queue)
{
	while (!TAILQ_EMPTY(queue)) {
		smd_turns_forget(turns, TAILQ_FIRST(queue));
	}
}

void smd_turns_end(struct smd_turns *turns)
{
	if (turns->lane) {
		turns->lane = NULL;
		turns_forget_all(turns, &turns->small);
		turns_forget_all(turns, &turns->large);
	}
}

void smd_turns_wait(struct smd_turns *turns, struct smd_turn *turn, uint32_t bytes)
{
	if (!turn->waits && turns->lane) {
		turn->bytes = bytes;
		turn->waits = true;
		TAILQ_INSERT_TAIL(turns_queue(turns, turn), turn, link);
	}
}

/* NULL: nobody waits. */
static struct smd_turn *turns_next(const struct smd_turns *turns)
{
	struct smd_turn *small = TAILQ_FIRST(&turns->small);
	struct smd_turn *large = TAILQ_FIRST(&turns->large);

	return small && (!large || turns->overtaken < large->bytes) ? small : large;
}

static bool turns_give(struct smd_turns *turns)
{
	struct smd_turn *turn;
	uint64_t size;

	if (!turns->lane) {
		return false;
	}
	turn = turns_next(turns);
	if (!turn) {
		return false;
	}
	size = SMD_FRAME_SIZE + turn->bytes;
	if (turns->held && turns->held + size > turns->lane->ops->room) {
		return false;
	}
	if (turn->bytes > SMD_TURN_SMALL || TAILQ_EMPTY(&turns->large)) {
		turns->overtaken = 0;
	} else {
		turns->overtaken += size;
	}
	smd_turns_forget(turns, turn);
	turns->giving = true;
	turn->take(turn);
	turns->giving = false;
	return true;
}

bool smd_turns_step(struct smd_turns *turns)
{
	bool gave;

	if (turns->giving) {
		turns->again = true;
		return false;
	}
	turns->again = false;
	gave = turns_give(turns);
	while (turns->again) { /* what was given has left at once, and made room for others */
		turns->again = turns_give(turns);
	}
	return gave;
}

void smd_turns_run(struct smd_turns *turns)
{
	while (smd_turns_step(turns)) {
	}
}

void smd_turns_send(struct smd_turns *turns, struct smd_frame *frame, struct smd_send *send)
{
	turns->held += SMD_FRAME_SIZE + (uint64_t)send->length;
	smd_lane_send(turns->lane, frame, send);
}

void smd_turns_sent(struct smd_turns *turns, const struct smd_send *send, int err)
{
	turns->held -= SMD_FRAME_SIZE + (uint64_t)send->length;
	if (err == 0) {
		smd_turns_run(turns);
	}
}
