/*
 * Any bytes at all as frames and payloads: refused with a reason, or decoded into what encodes to
 * the same bytes again.
 */
#include <stdlib.h>
#include <string.h>

#include "reduction_server/wire/message.h"
#include "tests/fuzz/input.h"

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
	struct smd_late late;
	char text[SMD_ERROR_TEXT_MAX];

	smd_text_decode(bytes, length, text);
	must_hold(memchr(text, '\0', sizeof(text)) != NULL);
	check_outcome(smd_abort_decode(bytes, length, &reason, &error), &error);
	error = (struct smd_error){""};
	check_outcome(smd_late_decode(bytes, length, &late, &error), &error);
}

static void decode_payload(const uint8_t *bytes, size_t length)
{
	uint8_t *exact = input_exact(bytes, length);

	must_hold(length <= SMD_CONTROL_MAX);
	DECODE_MESSAGE(hello, exact, length);
	DECODE_MESSAGE(challenge, exact, length);
	DECODE_MESSAGE(proof, exact, length);
	DECODE_MESSAGE(pair, exact, length);
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
