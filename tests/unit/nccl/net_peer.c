/* Plays the other end of a connection with sockets, and keeps what the plugin logs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "reduction_server/base/clock.h"
#include "tests/unit/nccl/net_peer.h"
#include "worker/nccl_plugin/abi/log.h"

char peer_said[4096];

static void listen_to(enum nccl_log_level level, unsigned long subsystems, const char *file,
	int line, const char *format, ...)
{
	size_t used = strlen(peer_said);
	va_list args;

	(void)level;
	(void)subsystems;
	(void)file;
	(void)line;
	va_start(args, format);
	vsnprintf(peer_said + used, sizeof(peer_said) - used, format, args);
	va_end(args);
}

void peer_open_plugin(void)
{
	setenv("NCCL_SOCKET_IFNAME", "=lo", 1);
	setenv("NCCL_SOCKET_FAMILY", "AF_INET", 1);
	setenv("SUMMAND_TRANSPORT", "tcp", 1);
	setenv("SUMMAND_NCCL_SOCKETS", "1", 1);
	setenv("SUMMAND_REDUCTION_SERVERS", "127.0.0.1:1", 1);
	smd_nccl_log_open(listen_to);
}

void peer_assert_said(const char *text)
{
	if (!strstr(peer_said, text)) {
		fprintf(stderr, "\"%s\" is not in:\n%s\n", text, peer_said);
		fail();
	}
}

/* ---- the peer's frames ---- */

void peer_put_frame(int fd, struct smd_frame frame, const void *payload, size_t length)
{
	uint8_t header[SMD_FRAME_SIZE];

	frame.length = (uint32_t)length;
	smd_frame_encode(&frame, header);
	assert_int_equal(send(fd, header, sizeof(header), MSG_NOSIGNAL), sizeof(header));
	assert_int_equal(send(fd, payload, length, MSG_NOSIGNAL), length);
}

struct smd_frame peer_take_frame(int fd, uint8_t payload[SMD_CONTROL_MAX])
{
	uint8_t header[SMD_FRAME_SIZE];
	struct smd_frame frame;

	assert_int_equal(recv(fd, header, sizeof(header), MSG_WAITALL), sizeof(header));
	assert_int_equal(smd_frame_decode(header, &frame, NULL), 0);
	assert_true(frame.length <= SMD_CONTROL_MAX);
	assert_int_equal(recv(fd, payload, frame.length, MSG_WAITALL), frame.length);
	return frame;
}

void peer_greet(int fd, const struct smd_net_handle *handle, unsigned lane, unsigned lanes)
{
	struct smd_net_greet greet = {
		.nonce = handle->nonce,
		.connection = {{1, 2}},
		.lane = lane,
		.lanes = lanes,
		.name = "offender",
	};
	uint8_t payload[SMD_CONTROL_MAX];
	size_t length = smd_net_greet_encode(&greet, payload);

	peer_put_frame(fd, (struct smd_frame){.kind = SMD_FRAME_GREET}, payload, length);
}

struct smd_frame data_frame(unsigned entry, uint64_t count, uint64_t offset)
{
	return (struct smd_frame){
		.kind = SMD_FRAME_DATA,
		.rank = (uint16_t)entry,
		.count = count,
		.offset = offset,
	};
}

/* ---- the receiver ---- */

int receiver_connect(const struct receiver *receiver)
{
	struct sockaddr_in name;
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	memcpy(&name, &receiver->handle.address, sizeof(name));
	name.sin_port = htons(receiver->handle.ports[0]);
	assert_int_equal(connect(fd, (struct sockaddr *)&name, sizeof(name)), 0);
	return fd;
}

void receiver_open(struct receiver *receiver)
{
	uint8_t handle[NCCL_HANDLE_BYTES];

	memset(receiver, 0, sizeof(*receiver));
	assert_int_equal(smd_net_listen(0, handle, &receiver->listen), NCCL_SUCCESS);
	assert_int_equal(smd_net_handle_decode(handle, &receiver->handle, NULL), 0);
	receiver->fd = receiver_connect(receiver);
	peer_said[0] = '\0';
}

void receiver_accept(struct receiver *receiver)
{
	uint64_t until = smd_clock_ns() + PATIENCE_NS;

	while (!receiver->comm && smd_clock_ns() < until) {
		assert_int_equal(smd_net_accept(receiver->listen, &receiver->comm), NCCL_SUCCESS);
	}
	assert_non_null(receiver->comm);
}

void receiver_start(struct receiver *receiver)
{
	void *data[2] = {receiver->data, receiver->data + ROOM};
	const size_t sizes[2] = {ROOM, 100};
	const int tags[2] = {5, 6};
	void *mhandles[2] = {NULL, NULL};

	assert_int_equal(
		smd_net_receive(receiver->comm, 2, data, sizes, tags, mhandles, &receiver->request),
		NCCL_SUCCESS);
	assert_non_null(receiver->request);
}

void receiver_post(struct receiver *receiver)
{
	receiver_open(receiver);
	peer_greet(receiver->fd, &receiver->handle, 0, 1);
	receiver_accept(receiver);
	receiver_start(receiver);
}

void receiver_close(struct receiver *receiver)
{
	close(receiver->fd);
	if (receiver->comm) {
		assert_int_equal(smd_net_close_receive(receiver->comm), NCCL_SUCCESS);
	}
	assert_int_equal(smd_net_close_listen(receiver->listen), NCCL_SUCCESS);
}
