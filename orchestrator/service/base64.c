/* Writes and reads four letters for three bytes. */
#include "orchestrator/service/base64.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

#define LETTERS 64
#define FILLER  '='

/* Of the last group, `count` bytes of three are there. */
static void encode_group(const uint8_t *bytes, size_t count, char out[4])
{
	uint32_t all = (uint32_t)bytes[0] << 16;

	all |= count > 1 ? (uint32_t)bytes[1] << 8 : 0;
	all |= count > 2 ? bytes[2] : 0;
	for (unsigned i = 0; i < 4; i++) {
		out[i] = i <= count ? letters[all >> (18 - 6 * i) & (LETTERS - 1)] : FILLER;
	}
}

char *smd_base64_encode(const uint8_t *bytes, size_t count)
{
	char *text = malloc((count + 2) / 3 * 4 + 1);
	char *out = text;

	for (size_t at = 0; text && at < count; at += 3, out += 4) {
		encode_group(bytes + at, count - at < 3 ? count - at : 3, out);
	}
	if (text) {
		*out = '\0';
	}
	return text;
}

/* A group's bytes; 0: it is none. What the filler stands for must be empty. */
static size_t decode_group(const char *text, uint8_t out[3])
{
	size_t given = 4 - (text[3] == FILLER) - (text[3] == FILLER && text[2] == FILLER);
	uint32_t all = 0;

	for (size_t i = 0; i < given; i++) {
		const char *letter = text[i] ? strchr(letters, text[i]) : NULL;

		if (!letter) {
			return 0;
		}
		all |= (uint32_t)(letter - letters) << (18 - 6 * i);
	}
	for (size_t i = 0; i < 3; i++) {
		out[i] = (uint8_t)(all >> (16 - 8 * i));
	}
	return (all & (0xffffffu >> (8 * (given - 1)))) ? 0 : given - 1;
}

long smd_base64_decode(const char *text, uint8_t *out, size_t max)
{
	size_t length = strlen(text);
	size_t count = 0;

	if (length % 4 != 0) {
		return -EINVAL;
	}
	for (size_t at = 0; at < length; at += 4) {
		uint8_t group[3];
		size_t size = decode_group(text + at, group);

		if (size == 0 || (size < 3 && at + 4 < length)) {
			return -EINVAL;
		}
		if (count + size > max) {
			return -E2BIG;
		}
		memcpy(out + count, group, size);
		count += size;
	}
	return (long)count;
}
