/*
 * Reading and writing a payload front to back without ever leaving it.
 *
 * A get past the end, or a string that is not one, sets `failed` and yields 0; a caller gets all
 * fields and looks at `failed` once. A put past the end is a bug of ours: payloads are bounded.
 */
#ifndef SMD_WIRE_CURSOR_H
#define SMD_WIRE_CURSOR_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct smd_reader {
	const uint8_t *at;
	size_t left;
	bool failed;
};

struct smd_writer {
	uint8_t *start;
	size_t used;
	size_t size;
};

static inline uint64_t smd_reader_get(struct smd_reader *reader, size_t bytes)
{
	uint64_t value = 0;

	if (reader->failed || reader->left < bytes) {
		reader->failed = true;
		return 0;
	}
	for (size_t i = 0; i < bytes; i++) {
		value |= (uint64_t)reader->at[i] << (8 * i);
	}
	reader->at += bytes;
	reader->left -= bytes;
	return value;
}

static inline void smd_reader_get_bytes(struct smd_reader *reader, void *out, size_t length)
{
	if (reader->failed || reader->left < length) {
		reader->failed = true;
		memset(out, 0, length);
		return;
	}
	memcpy(out, reader->at, length);
	reader->at += length;
	reader->left -= length;
}

/* A string of at most size - 1 bytes without control characters. */
static inline void smd_reader_get_string(struct smd_reader *reader, char *out, size_t size)
{
	size_t length = smd_reader_get(reader, 2);

	out[0] = '\0';
	if (reader->failed || length > reader->left || length >= size) {
		reader->failed = true;
		return;
	}
	for (size_t i = 0; i < length; i++) {
		if (reader->at[i] < 0x20 || reader->at[i] == 0x7f) {
			reader->failed = true;
			return;
		}
	}
	memcpy(out, reader->at, length);
	out[length] = '\0';
	reader->at += length;
	reader->left -= length;
}

static inline void smd_writer_put(struct smd_writer *writer, uint64_t value, size_t bytes)
{
	assert(writer->size - writer->used >= bytes);
	for (size_t i = 0; i < bytes; i++) {
		writer->start[writer->used++] = (uint8_t)(value >> (8 * i));
	}
}

static inline void smd_writer_put_bytes(struct smd_writer *writer, const void *bytes, size_t length)
{
	assert(writer->size - writer->used >= length);
	memcpy(writer->start + writer->used, bytes, length);
	writer->used += length;
}

static inline void smd_writer_put_string(struct smd_writer *writer, const char *text)
{
	size_t length = strlen(text);

	smd_writer_put(writer, length, 2);
	smd_writer_put_bytes(writer, text, length);
}

#endif
