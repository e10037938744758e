/* Speaks frames over a blocking socket. */
#include "tests/unit/allreduce/raw.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PATIENCE_S 60

void raw_open(struct raw *raw, const struct pool *pool, unsigned server)
{
	const char *address = smd_server_address(pool->servers[server].server);
	const struct timeval patience = {PATIENCE_S, 0};
	const int at_once = 1; /* a payload does not wait until its header is acknowledged */
	struct sockaddr_in name = {.sin_family = AF_INET};

	name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	name.sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
	raw->deaf = false;
	raw->pieces = NULL;
	raw->pieces_bytes = 0;
	raw->payload = malloc(SMD_CHUNK_LIMIT + 1);
	raw->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(raw->fd >= 0);
	CHECK(setsockopt(raw->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0);
	CHECK(setsockopt(raw->fd, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof(at_once)) == 0);
	CHECK(connect(raw->fd, (struct sockaddr *)&name, sizeof(name)) == 0);
}

void raw_close(struct raw *raw)
{
	close(raw->fd);
	free(raw->payload);
	free(raw->pieces);
}

void raw_write(struct raw *raw, const void *bytes, size_t length)
{
	const char *at = bytes;

	while (length) {
		ssize_t sent = send(raw->fd, at, length, MSG_NOSIGNAL);

		if (sent < 0) {
			return; /* the server has ended the lane: raw_expect_end() will see it */
		}
		at += sent;
		length -= (size_t)sent;
	}
}

void raw_send(struct raw *raw, struct smd_frame frame, const void *payload, size_t length)
{
	uint8_t header[SMD_FRAME_SIZE];

	frame.length = (uint32_t)length;
	smd_frame_encode(&frame, header);
	raw_write(raw, header, sizeof(header));
	raw_write(raw, payload, length);
}

static bool receive_any(struct raw *raw)
{
	uint8_t header[SMD_FRAME_SIZE];
	ssize_t got = recv(raw->fd, header, sizeof(header), MSG_WAITALL);

	if (got <= 0) {
		CHECK(got == 0 || errno == ECONNRESET); /* else it took too long */
		return false;
	}
	CHECK(got == SMD_FRAME_SIZE);
	CHECK(smd_frame_decode(header, &raw->frame, NULL) == 0);
	if (raw->frame.length) {
		CHECK(recv(raw->fd, raw->payload, raw->frame.length, MSG_WAITALL) ==
			(ssize_t)raw->frame.length);
	}
	raw->payload[raw->frame.length] = '\0';
	return true;
}

/* Puts the pieces of a result together. Whether it is whole. */
static bool join_pieces(struct raw *raw)
{
	uint32_t before = raw->pieces_bytes;

	if (raw->frame.window == 0) {
		raw->pieces = realloc(raw->pieces, before + raw->frame.length);
		CHECK(raw->pieces);
		memcpy(raw->pieces + before, raw->payload, raw->frame.length);
		raw->pieces_bytes += raw->frame.length;
		return false;
	}
	if (before) {
		memmove(raw->payload + before, raw->payload, raw->frame.length + 1);
		memcpy(raw->payload, raw->pieces, before);
		raw->frame.length += before;
		raw->pieces_bytes = 0;
	}
	return true;
}

bool raw_receive(struct raw *raw)
{
	while (receive_any(raw)) {
		if (raw->frame.kind == SMD_FRAME_RESULT && !join_pieces(raw)) {
			continue;
		}
		if (raw->frame.kind != SMD_FRAME_PING || raw->deaf) {
			return true;
		}
		raw_send(raw, (struct smd_frame){.kind = SMD_FRAME_PONG}, NULL, 0);
	}
	return false;
}

void raw_expect(struct raw *raw, enum smd_frame_kind kind)
{
	do {
		CHECK(raw_receive(raw));
	} while ((raw->frame.kind == SMD_FRAME_LATE || raw->frame.kind == SMD_FRAME_DRAINS ||
			 raw->frame.kind == SMD_FRAME_OTHERS) &&
		 raw->frame.kind != kind);
	if (raw->frame.kind != kind) {
		fprintf(stderr, "expected %s, got %s: %s\n", smd_frame_kind_name(kind),
			smd_frame_kind_name(raw->frame.kind), raw->payload);
		abort();
	}
}

void raw_expect_text(struct raw *raw, enum smd_frame_kind kind, const char *text)
{
	const char *said = (const char *)raw->payload +
			   (kind == SMD_FRAME_REFUSE || kind == SMD_FRAME_IDLE ? 0 : 4);

	raw_expect(raw, kind);
	if (!strstr(said, text)) {
		fprintf(stderr, "expected \"%s\", got \"%s\"\n", text, said);
		abort();
	}
}

void raw_expect_end(struct raw *raw)
{
	while (raw_receive(raw)) {
	}
}

static void raw_say_hello_of(
	struct raw *raw, const char *replica, const char *job, unsigned shard, const char *token)
{
	struct smd_hello *hello = &raw->handshake.hello;
	uint8_t payload[SMD_CONTROL_MAX];

	*hello = (struct smd_hello){
		.shard = (uint16_t)shard, .flags = token[0] ? SMD_HELLO_TOKEN : 0};
	CHECK(smd_nonce_draw(hello->nonce) == 0);
	snprintf(hello->replica, sizeof(hello->replica), "%s", replica);
	snprintf(hello->job, sizeof(hello->job), "%s", job);
	raw_send(raw, (struct smd_frame){.kind = SMD_FRAME_HELLO}, payload,
		smd_hello_encode(hello, payload));
}

void raw_say_hello(struct raw *raw, const char *replica, unsigned shard, const char *token)
{
	raw_say_hello_of(raw, replica, "raw", shard, token);
}

void raw_greet_job(struct raw *raw, const char *replica, const char *job)
{
	raw_say_hello_of(raw, replica, job, 0, "");
	raw_expect(raw, SMD_FRAME_WELCOME);
}

void raw_greet(struct raw *raw, const char *replica)
{
	raw_greet_job(raw, replica, "raw");
}

void raw_join(struct raw *raw, uint32_t number, const char *group, unsigned nranks, unsigned rank)
{
	struct smd_join join = {.nranks = (uint16_t)nranks};
	uint8_t payload[SMD_CONTROL_MAX];

	snprintf(join.group, sizeof(join.group), "%s", group);
	raw_send(raw,
		(struct smd_frame){.kind = SMD_FRAME_JOIN, .comm = number, .rank = (uint16_t)rank},
		payload, smd_join_encode(&join, payload));
}

void raw_leave(struct raw *raw, uint32_t number, unsigned rank)
{
	raw_send(raw,
		(struct smd_frame){.kind = SMD_FRAME_LEAVE, .comm = number, .rank = (uint16_t)rank},
		NULL, 0);
}

struct smd_frame raw_input(uint32_t number, unsigned rank, uint64_t ordinal, uint64_t count)
{
	return (struct smd_frame){
		.kind = SMD_FRAME_INPUT,
		.dtype = SMD_INT32,
		.op = SMD_SUM,
		.comm = number,
		.rank = (uint16_t)rank,
		.chunk = ordinal,
		.operation = ordinal,
		.count = count,
		.ordinal = ordinal,
	};
}
