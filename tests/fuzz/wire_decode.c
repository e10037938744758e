/*
 * Any bytes at all as frames and payloads: refused with a reason, or decoded into what encodes to
 * the same bytes again.
 *
 * Linked with wire_replay.c it replays recorded sessions and what can be made of them. For
 * libFuzzer, compile this file and smd_wire and smd_base with clang
 * -fsanitize=fuzzer,address,undefined, and start from tests/fuzz/wire.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/wire/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

/* Our own promise, not the input's. */
static void must_hold(int condition)
{
	if (!condition) {
		abort();
	}
}

static void check_outcome(int ret, const struct smd_error *error)
{
	must_hold(ret <= 0 && (ret == 0) == (error->text[0] == '\0'));
}

#define DECODE_MESSAGE(name, bytes, length)                                                        \
	do {                                                                                       \
		struct smd_error error_ = {""};                                                    \
		uint8_t again_[SMD_CONTROL_MAX];                                                   \
		struct smd_##name out_;                                                            \
		int ret_ = smd_##name##_decode((bytes), (length), &out_, &error_);                 \
                                                                                                   \
		check_outcome(ret_, &error_);                                                      \
		if (ret_ == 0) {                                                                   \
			must_hold(smd_##name##_encode(&out_, again_) == (length));                 \
			must_hold(memcmp(again_, (bytes), (length)) == 0);                         \
		}                                                                                  \
	} while (0)

/* A text that is sent on is cut and cleaned, so it need not be the same again. */
static void decode_texts(const uint8_t *bytes, size_t length)
{
	struct smd_error error = {""};
	struct smd_abort reason;
	char text[SMD_ERROR_TEXT_MAX];

	smd_text_decode(bytes, length, text);
	must_hold(memchr(text, '\0', sizeof(text)) != NULL);
	check_outcome(smd_abort_decode(bytes, length, &reason, &error), &error);
}

static void decode_payload(const uint8_t *bytes, size_t length)
{
	/* In memory of its own, so that a sanitizer sees a byte that is read past its end. */
	uint8_t *exact = malloc(length + 1);

	must_hold(exact != NULL && length <= SMD_CONTROL_MAX);
	memcpy(exact, bytes, length);
	DECODE_MESSAGE(hello, exact, length);
	DECODE_MESSAGE(welcome, exact, length);
	DECODE_MESSAGE(join, exact, length);
	decode_texts(exact, length);
	free(exact);
}

/* A stream of frames, until one is wrong or the bytes are used up. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	while (length >= SMD_FRAME_SIZE) {
		uint8_t again[SMD_FRAME_SIZE];
		struct smd_error error = {""};
		struct smd_frame frame;
		int ret = smd_frame_decode(bytes, &frame, &error);

		check_outcome(ret, &error);
		if (ret) {
			break;
		}
		smd_frame_encode(&frame, again);
		must_hold(memcmp(again, bytes, sizeof(again)) == 0);
		bytes += SMD_FRAME_SIZE;
		length -= SMD_FRAME_SIZE;
		if (frame.length > length) {
			break;
		}
		if (frame.length <= SMD_CONTROL_MAX) {
			decode_payload(bytes, frame.length);
		}
		bytes += frame.length;
		length -= frame.length;
	}
	decode_payload(bytes, length < SMD_CONTROL_MAX ? length : SMD_CONTROL_MAX);
	return 0;
}
