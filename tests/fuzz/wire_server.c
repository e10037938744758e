/*
 * Any bytes at all as what a worker says to a reduction server: the server ends the lane or
 * answers, and drains afterwards, so nothing that the worker has left keeps it.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "tests/fuzz/input.h"
#include "tests/unit/allreduce/fixture.h"
#include "tests/unit/allreduce/raw.h"

/* What a worker says before it waits for WELCOME: its first frame, if that is whole. */
static size_t first_frame(const uint8_t *bytes, size_t length)
{
	struct smd_frame frame;

	if (length < SMD_FRAME_SIZE || smd_frame_decode(bytes, &frame, NULL) ||
		frame.length > length - SMD_FRAME_SIZE) {
		return length;
	}
	return SMD_FRAME_SIZE + frame.length;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	const struct smd_server_config config = {.shards = 1,
		.chunk_bytes = 4096,
		.memory_bytes = 16 * SMD_BUFFER_POOL_STRIDE(4096),
		.window = 4};
	size_t greeting = first_frame(bytes, length);
	struct pool pool;
	struct raw raw;

	setenv("SUMMAND_LOG", "error", 1);
	pool_start(&pool, "tcp", 1, &config);
	input_block_timer();
	raw_open(&raw, &pool, 0);
	raw_write(&raw, bytes, greeting);
	if (greeting == length) {
		CHECK(shutdown(raw.fd, SHUT_WR) == 0 || errno == ENOTCONN);
	} else if (raw_receive(&raw) && raw.frame.kind == SMD_FRAME_WELCOME) {
		raw_write(&raw, bytes + greeting, length - greeting);
	}
	(void)shutdown(raw.fd, SHUT_WR);
	raw_expect_end(&raw);
	raw_close(&raw);
	input_unblock_timer();
	pool_stop(&pool);
	return 0;
}
