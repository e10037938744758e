/*
 * ABORT of one shard comes before RESULT of another: two servers that are a socket each, which
 * answer one after the other. What neither of them withholds is done; all else fails at once, with
 * the first reason, which every shard hears.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/allreduce/fixture.h"
#include "tests/unit/allreduce/raw.h"

enum { CHUNK = 4096, COUNT = 2 * CHUNK / 4, OVERTAKEN_US = 50000 };

#define FIRST  "group g: rank 1 (first) was lost: it ended"
#define SECOND "group g: rank 1 (second) was lost: it ended"

struct shard {
	int listener;
	struct raw raw;
	struct smd_frame input; /* the last one */
};

static uint16_t shard_listen(struct shard *shard)
{
	struct sockaddr_in name = {.sin_family = AF_INET};
	socklen_t size = sizeof(name);

	name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	shard->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(shard->listener, (struct sockaddr *)&name, sizeof(name)), 0);
	assert_int_equal(listen(shard->listener, 1), 0);
	assert_int_equal(getsockname(shard->listener, (struct sockaddr *)&name, &size), 0);
	return ntohs(name.sin_port);
}

static void shard_welcome(struct shard *shard, uint64_t id)
{
	const struct smd_welcome welcome = {
		.server_id = id, .shards = 1, .chunk_bytes = CHUNK, .weight = 100};
	uint8_t payload[SMD_CONTROL_MAX];

	shard->raw.payload = malloc(SMD_CHUNK_LIMIT + 1);
	shard->raw.fd = accept(shard->listener, NULL, NULL);
	CHECK(shard->raw.fd >= 0);
	raw_expect(&shard->raw, SMD_FRAME_HELLO);
	raw_send(&shard->raw, (struct smd_frame){.kind = SMD_FRAME_WELCOME}, payload,
		smd_welcome_encode(&welcome, payload));
}

static void shard_join(struct shard *shard)
{
	struct smd_frame frame;

	raw_expect(&shard->raw, SMD_FRAME_JOIN);
	frame = shard->raw.frame;
	frame.kind = SMD_FRAME_JOINED;
	frame.window = 4;
	raw_send(&shard->raw, frame, NULL, 0);
}

static void shard_take_input(struct shard *shard)
{
	raw_expect(&shard->raw, SMD_FRAME_INPUT);
	shard->input = shard->raw.frame;
}

/* The part itself: it is the only one. */
static void shard_say_result(struct shard *shard)
{
	struct smd_frame frame = shard->input;
	static const uint8_t zeros[CHUNK];

	frame.kind = SMD_FRAME_RESULT;
	frame.window = 4;
	raw_send(&shard->raw, frame, zeros, frame.length);
}

static void shard_say_abort(struct shard *shard, const char *text)
{
	struct smd_frame frame = {.kind = SMD_FRAME_ABORT, .comm = shard->input.comm};
	struct smd_abort abort = {.err = ECONNRESET};
	uint8_t payload[SMD_CONTROL_MAX];

	snprintf(abort.text, sizeof(abort.text), "%s", text);
	raw_send(&shard->raw, frame, payload, smd_abort_encode(&abort, payload));
}

static void shard_expect_leave(struct shard *shard)
{
	raw_expect_text(&shard->raw, SMD_FRAME_LEAVE, FIRST);
}

/* ---- the order of things ---- */

struct play {
	const char *name;
	void (*act)(struct shard shards[2]); /* from the first operation's parts on */
	int first;                           /* what comes of it; all later ones fail */
};

static void abort_overtakes_a_result(struct shard shards[2])
{
	shard_say_result(&shards[0]);
	shard_say_abort(&shards[0], FIRST);
	usleep(OVERTAKEN_US);
	shard_say_result(&shards[1]);
	shard_say_abort(&shards[1], SECOND);
	shard_expect_leave(&shards[0]);
	shard_expect_leave(&shards[1]);
}

/* The other shard has not noticed, and hears it from this rank. */
static void one_shard_alone_aborts(struct shard shards[2])
{
	shard_say_result(&shards[0]);
	shard_say_abort(&shards[0], FIRST);
	usleep(OVERTAKEN_US);
	shard_say_result(&shards[1]);
	shard_expect_leave(&shards[1]);
}

static void a_chunk_is_withheld(struct shard shards[2])
{
	shard_say_abort(&shards[0], FIRST);
	shard_expect_leave(&shards[1]); /* which has said nothing at all */
}

static void both_end_and_one_withholds(struct shard shards[2])
{
	shard_say_result(&shards[0]);
	shard_say_abort(&shards[0], FIRST);
	usleep(OVERTAKEN_US);
	shard_say_abort(&shards[1], SECOND);
	shard_expect_leave(&shards[1]);
}

static const struct play plays[] = {
	{"abort overtakes a result", abort_overtakes_a_result, 0},
	{"one shard alone aborts", one_shard_alone_aborts, 0},
	{"a chunk is withheld", a_chunk_is_withheld, -ECONNRESET},
	{"both end and one withholds", both_end_and_one_withholds, -ECONNRESET},
};
#define NPLAYS (sizeof(plays) / sizeof(plays[0]))

struct stage {
	const struct play *play;
	struct shard shards[2];
};

static void *perform(void *arg)
{
	struct stage *stage = arg;

	for (int i = 0; i < 2; i++) {
		shard_welcome(&stage->shards[i], (uint64_t)i + 1);
	}
	for (int i = 0; i < 2; i++) {
		shard_join(&stage->shards[i]);
	}
	for (int i = 0; i < 2; i++) {
		shard_take_input(&stage->shards[i]);
	}
	stage->play->act(stage->shards);
	for (int i = 0; i < 2; i++) {
		while (raw_receive(&stage->shards[i].raw)) {
		}
		raw_close(&stage->shards[i].raw);
	}
	return NULL;
}

static void check_fails(int ret)
{
	assert_int_equal(ret, -ECONNRESET);
	assert_string_equal(smd_error_message(), FIRST);
}

static void work(smd_context *context, const struct play *play)
{
	static int32_t values[COUNT];
	smd_comm *comm;
	int ret;

	assert_int_equal(smd_comm_create(context, "g", 1, 0, &comm), 0);
	ret = smd_allreduce(comm, values, values, COUNT, SMD_INT32, SMD_SUM);
	if (play->first) {
		check_fails(ret);
	} else {
		assert_int_equal(ret, 0);
	}
	check_fails(smd_allreduce(comm, values, values, COUNT, SMD_INT32, SMD_SUM));
	smd_comm_destroy(comm);
}

static void an_operation_fails_only_for_what_it_lacks(void **state)
{
	struct stage stage = {.play = *state};
	char servers[64];
	const struct smd_context_options options = {.servers = servers, .connect_timeout_s = 60};
	uint16_t ports[2];
	smd_context *context;
	pthread_t thread;

	for (int i = 0; i < 2; i++) {
		ports[i] = shard_listen(&stage.shards[i]);
	}
	snprintf(servers, sizeof(servers), "127.0.0.1:%u,127.0.0.1:%u", ports[0], ports[1]);
	assert_int_equal(pthread_create(&thread, NULL, perform, &stage), 0);
	assert_int_equal(smd_context_create(&options, &context), 0);
	work(context, stage.play);
	smd_context_destroy(context);
	pthread_join(thread, NULL);
	for (int i = 0; i < 2; i++) {
		close(stage.shards[i].listener);
	}
}

int main(void)
{
	struct CMUnitTest tests[NPLAYS];

	for (size_t i = 0; i < NPLAYS; i++) {
		tests[i] = (struct CMUnitTest){plays[i].name,
			an_operation_fails_only_for_what_it_lacks, NULL, NULL, (void *)&plays[i]};
	}
	setenv("SUMMAND_ZERO_BLOCKS", "off", 1); /* the servers here know no maps of them */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
