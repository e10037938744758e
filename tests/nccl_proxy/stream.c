/* All-reduce i is in slot i modulo their number, and begins when the one before it there is done.
 */
#include "tests/nccl_proxy/stream.h"

#include <unistd.h>

static unsigned roll(struct stream *stream, unsigned sides)
{
	stream->dice = stream->dice * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(stream->dice >> 33) % sides;
}

static struct proxy_op *next(struct stream *stream)
{
	struct proxy_op *op = &stream->ops[stream->started % stream->proxy->shape.slots];

	return stream->started == stream->total || op->request ? NULL : op;
}

void stream_start(struct stream *stream)
{
	unsigned slots = stream->proxy->shape.slots;
	struct proxy_op *op;

	CHECK(slots <= STREAM_SLOTS_MAX);
	while ((op = next(stream))) {
		int result;

		if (stream->put_off) {
			result = proxy_start(stream->proxy, op);
		} else {
			op->slot = stream->started % slots;
			stream->choose(stream, stream->started, op);
			result = proxy_fill_and_start(stream->proxy, op);
		}
		CHECK_EQUAL(result, NCCL_SUCCESS);
		stream->put_off = !op->request;
		if (stream->put_off) {
			return;
		}
		stream->started++;
	}
}

bool stream_progress(struct stream *stream)
{
	unsigned slots = stream->proxy->shape.slots;
	unsigned first = roll(stream, slots);

	stream_start(stream);
	for (unsigned i = 0; i < slots; i++) {
		struct proxy_op *op = &stream->ops[(first + i * 7) % slots];

		if (!op->request) {
			continue;
		}
		CHECK_EQUAL(proxy_test(stream->proxy, op), NCCL_SUCCESS);
		if (!op->request) {
			proxy_verify(stream->proxy, op);
			stream->finished++;
		}
	}
	return stream->finished < stream->total;
}

void stream_finish(struct stream *stream)
{
	while (stream_progress(stream)) {
		usleep(20); /* NCCL spins; here processors are shared */
	}
}
