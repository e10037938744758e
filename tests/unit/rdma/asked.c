/* Asks for a lane as the connection manager does, and sets up what it needs. */
#include "tests/unit/rdma/asked.h"

#include <stdlib.h>

struct asked asked;

static void asked_on_accept(void *owner, struct smd_lane *lane, int shard)
{
	(void)owner;
	(void)shard;
	asked.end.lane = lane;
	assert_int_equal(smd_lane_attach(lane, asked.end.base, &link_callbacks, &asked.end), 0);
}

int managed_set_up(void **state)
{
	struct smd_error error = {""};
	char bound[128];
	struct link *link;

	stage_set_up(state);
	link = *state;
	asked = (struct asked){.end = {.base = link->base, .room = malloc(ROOM)},
		.receive_buffers = calloc(RDMA_BUFFERS, SMD_RDMA_BUFFER_SIZE),
		.pool = {malloc(SMD_RDMA_MEMORY_PIECE), SMD_RDMA_MEMORY_PIECE}};
	stage_prepare(link, "10.0.0.1:7", 5, asked.pool, 1 << 16);
	link_open(link);
	assert_int_equal(smd_transport_rdma.listen(link->base, "10.0.0.1:8", asked_on_accept, NULL,
				 &asked.listener, bound, &error),
		0);
	return 0;
}

int managed_tear_down(void **state)
{
	int ret;

	if (asked.listener) {
		smd_listener_close(asked.listener);
	}
	ret = stage_tear_down(state);
	free(asked.end.room);
	free(asked.receive_buffers);
	free(asked.pool.base);
	return ret;
}

struct rdma_cm_id *ask(struct link *link)
{
	const struct smd_rdma_greeting greeting = {.receive_buffers = RDMA_BUFFERS,
		.address = (uintptr_t)asked.receive_buffers,
		.key = script_expose(
			asked.receive_buffers, (size_t)RDMA_BUFFERS * SMD_RDMA_BUFFER_SIZE)};
	uint8_t bytes[SMD_RDMA_GREETING_SIZE];
	struct rdma_cm_id *id;

	smd_rdma_greeting_encode(&greeting, bytes);
	id = script_request(bytes, sizeof(bytes));
	stage_turn(link);
	assert_non_null(asked.end.lane);
	return id;
}

struct peer who_asked(void)
{
	const struct rdma_lane *lane = rdma_lane_of(asked.end.lane);

	return (struct peer){.id = script_id_of_pair(lane->pair.qp),
		.theirs = smd_rdma_lane_greeting(lane),
		.own = {.receive_buffers = RDMA_BUFFERS},
		.receive_buffers = asked.receive_buffers};
}

void try_asked(struct peer *peer, struct link *link)
{
	const struct rdma_lane *lane = rdma_lane_of(asked.end.lane);
	const uint8_t *at;

	assert_int_equal(lane->state, RDMA_LANE_TRYING);
	assert_int_equal(peer_messages(peer), 0); /* it may not be joined before it has asked */
	peer_write_trial(peer);
	RUN_UNTIL(link, lane->state == RDMA_LANE_OPEN);
	assert_int_equal(peer_messages(peer), 1);
	assert_true(peer_read(peer, 0, &at).trial);
	assert_false(lane->lane.opening);
	assert_int_equal(asked.end.opened, 0); /* who was asked awaits nothing */
	peer->taken = 1;
}

void close_asked(struct link *link)
{
	struct rdma_loop *loop = rdma_lane_of(asked.end.lane)->loop;

	asked.end.closed = 0;
	end_close(&asked.end);
	RUN_UNTIL(link, LIST_EMPTY(&loop->drains));
	stage_turn(link);
}

void close_asked_before(struct link *link, enum script_call_name name)
{
	struct rdma_loop *loop = rdma_lane_of(asked.end.lane)->loop;

	asked.end.closed = 0;
	end_close(&asked.end);
	slow_end(name);
	RUN_UNTIL(link, LIST_EMPTY(&loop->drains));
	stage_turn(link);
}
