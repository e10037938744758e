/*
 * In which order the lanes of a point-to-point connection may end: a sender that has sent all
 * closes them one by one, and the network may bring one lane's end before another lane's last
 * bytes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reduction_server/base/clock.h"
#include "tests/unit/nccl/net_peer.h"

enum { LANES = 2 };

static const uint8_t bytes[ROOM];

/*
 * Receives are posted over two lanes; *other is the peer's end of lane 1. The peer has read all, as
 * a sender has that closes: else its kernel would take back what it has sent.
 */
static void begin(struct receiver *receiver, int *other)
{
	uint8_t payload[SMD_CONTROL_MAX];

	setenv("SUMMAND_NCCL_SOCKETS", "2", 1);
	receiver_open(receiver);
	*other = receiver_connect(receiver);
	peer_greet(receiver->fd, &receiver->handle, 0, LANES);
	peer_greet(*other, &receiver->handle, 1, LANES);
	receiver_accept(receiver);
	receiver_start(receiver);
	assert_int_equal(peer_take_frame(receiver->fd, payload).kind, SMD_FRAME_ACCEPT);
	assert_int_equal(peer_take_frame(receiver->fd, payload).kind, SMD_FRAME_POST);
}

/* The peer ends a lane, and the receiver has seen that. Both messages are under way still. */
static void end_lane(struct receiver *receiver, int *fd, unsigned lane)
{
	const struct smd_net_comm *comm = receiver->comm;
	uint64_t until = smd_clock_ns() + PATIENCE_NS;
	int done = 0;

	close(*fd);
	*fd = -1;
	while (comm->lanes[lane].lane && smd_clock_ns() < until) {
		assert_int_equal(smd_net_test(receiver->request, &done, NULL), NCCL_SUCCESS);
		assert_int_equal(done, 0);
	}
	assert_null(comm->lanes[lane].lane);
	assert_int_equal(comm->result, NCCL_SUCCESS);
}

/* What test() says in the end. */
static int finish(struct receiver *receiver, int sizes[2])
{
	uint64_t until = smd_clock_ns() + PATIENCE_NS;
	int ret = NCCL_SUCCESS;
	int done = 0;

	while (!done && ret == NCCL_SUCCESS && smd_clock_ns() < until) {
		ret = smd_net_test(receiver->request, &done, sizes);
	}
	assert_true(done || ret);
	return ret;
}

/* The last bytes of the messages come on the lane that is left. */
static void data_after_the_end_of_another_lane(void **state)
{
	(void)state;
	for (unsigned ended = 0; ended < LANES; ended++) {
		struct receiver receiver;
		int fds[LANES];
		int sizes[2];
		unsigned left = 1 - ended;

		begin(&receiver, &fds[1]);
		fds[0] = receiver.fd;
		peer_put_frame(fds[ended], data_frame(0, ROOM, 0), bytes, ROOM - 1000);
		end_lane(&receiver, &fds[ended], ended);
		peer_put_frame(fds[left], data_frame(0, ROOM, ROOM - 1000), bytes, 1000);
		peer_put_frame(fds[left], data_frame(1, 100, 0), bytes, 100);
		close(fds[left]);
		assert_int_equal(finish(&receiver, sizes), NCCL_SUCCESS);
		assert_int_equal(sizes[0], ROOM);
		assert_int_equal(sizes[1], 100);
		receiver.fd = -1;
		receiver_close(&receiver);
		assert_null(strstr(peer_said, "was lost"));
	}
}

/* Bytes are missing when the last lane ends. */
static void the_end_of_all_lanes(void **state)
{
	struct receiver receiver;
	int sizes[2];
	int other;

	(void)state;
	begin(&receiver, &other);
	peer_put_frame(other, data_frame(0, ROOM, 0), bytes, ROOM - 1);
	end_lane(&receiver, &receiver.fd, 0);
	close(other);
	assert_int_equal(finish(&receiver, sizes), NCCL_REMOTE_ERROR);
	peer_assert_said("offender");
	peer_assert_said("was lost: the other end closed the connection");
	receiver_close(&receiver);
}

/* A lane that ends in the middle of its payload: no other lane can bring the rest. */
static void an_end_amid_a_payload(void **state)
{
	struct smd_frame frame = data_frame(0, ROOM, 0);
	uint8_t header[SMD_FRAME_SIZE];
	struct receiver receiver;
	int sizes[2];
	int other;

	(void)state;
	begin(&receiver, &other);
	frame.length = ROOM;
	smd_frame_encode(&frame, header);
	assert_int_equal(write(other, header, sizeof(header)), sizeof(header));
	assert_int_equal(write(other, bytes, ROOM - 1), ROOM - 1);
	close(other);
	assert_int_equal(finish(&receiver, sizes), NCCL_REMOTE_ERROR);
	peer_assert_said("was lost: the other end closed the connection");
	receiver_close(&receiver);
}

/* The lane that posts is gone: a receive is not taken, and then the connection is over. */
static void a_receive_after_the_end_of_its_lane(void **state)
{
	struct receiver receiver;
	uint64_t until = smd_clock_ns() + PATIENCE_NS;
	void *data = receiver.data;
	const size_t size = 1;
	const int tag = 5;
	void *request = &receiver;
	int other;
	int ret;

	(void)state;
	begin(&receiver, &other);
	end_lane(&receiver, &receiver.fd, 0);
	ret = smd_net_receive(receiver.comm, 1, &data, &size, &tag, NULL, &request);
	assert_int_equal(ret, NCCL_SUCCESS);
	assert_null(request);
	close(other);
	while (ret == NCCL_SUCCESS && smd_clock_ns() < until) {
		ret = smd_net_receive(receiver.comm, 1, &data, &size, &tag, NULL, &request);
		assert_null(request);
	}
	assert_int_equal(ret, NCCL_REMOTE_ERROR);
	peer_assert_said("was lost: the other end closed the connection");
	receiver_close(&receiver);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(data_after_the_end_of_another_lane),
		cmocka_unit_test(the_end_of_all_lanes),
		cmocka_unit_test(an_end_amid_a_payload),
		cmocka_unit_test(a_receive_after_the_end_of_its_lane),
	};

	peer_open_plugin();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
