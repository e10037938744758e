/* Writes requests, and reads answers. */
#include "orchestrator/client/exchange.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "orchestrator/client/channel.h"
#include "reduction_server/base/clock.h"
#include "reduction_server/base/parse.h"

#define PIECE    16384
#define HEAD_MAX ((size_t)64 << 10)
#define HEAD_END "\r\n\r\n"
#define LINE_END "\r\n"

/* All that has come. */
struct answer_text {
	char *bytes;
	size_t length;
	size_t size;
};

static int write_request(struct smd_channel *channel, const struct smd_url *url,
	const struct smd_exchange *exchange, struct smd_error *error)
{
	const char *path = exchange->path ? exchange->path : url->path;
	char length[64] = "";
	char *head;
	int ret;

	if (exchange->body) {
		snprintf(length, sizeof(length),
			"Content-Type: application/json\r\nContent-Length: %zu\r\n",
			exchange->body_length);
	}
	if (asprintf(&head,
		    "%s %s%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: summand/" SUMMAND_VERSION
		    "\r\nAccept: application/json\r\nConnection: close\r\n%s%s\r\n",
		    exchange->method, *path == '/' ? "" : "/", path, url->authority, length,
		    exchange->headers ? exchange->headers : "") < 0) {
		return smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
	}
	ret = smd_channel_write(channel, head, strlen(head), error);
	free(head);
	if (!ret && exchange->body) {
		ret = smd_channel_write(channel, exchange->body, exchange->body_length, error);
	}
	return ret;
}

/* One more piece. 1: there is no more. */
static int read_more(struct smd_channel *channel, size_t most, struct answer_text *text,
	struct smd_error *error)
{
	ssize_t count;

	if (text->size - text->length < PIECE + 1) {
		size_t size = 2 * text->size + PIECE + 1;
		char *bytes = realloc(text->bytes, size);

		if (!bytes) {
			return smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
		}
		text->bytes = bytes;
		text->size = size;
	}
	count = smd_channel_read(channel, text->bytes + text->length, PIECE, error);
	if (count < 0) {
		return (int)count;
	}
	text->length += (size_t)count;
	text->bytes[text->length] = '\0';
	if (text->length > most) {
		return smd_error_set(
			error, EFBIG, "the answer must have at most %zu bytes", most);
	}
	return count == 0;
}

/* The value of a header, without the blanks before it; NULL: it is not there. */
static const char *header_of(const char *head, const char *name)
{
	size_t length = strlen(name);

	for (const char *line = strstr(head, LINE_END); line; line = strstr(line, LINE_END)) {
		line += strlen(LINE_END);
		if (strncasecmp(line, name, length) == 0 && line[length] == ':') {
			return line + length + 1 + strspn(line + length + 1, " \t");
		}
	}
	return NULL;
}

/* Pieces with their lengths before them become one text. */
static int join_chunks(char *body, size_t *length)
{
	char *in = body;
	char *out = body;
	char *end = body + *length;

	for (;;) {
		char *rest;
		unsigned long size;

		if (!isxdigit((unsigned char)*in)) {
			return -EPROTO;
		}
		size = strtoul(in, &rest, 16);
		rest = strstr(rest, LINE_END);
		if (!rest || size > (size_t)(end - rest)) {
			return -EPROTO;
		}
		in = rest + strlen(LINE_END);
		if (size == 0) {
			*out = '\0';
			*length = (size_t)(out - body);
			return 0;
		}
		if (size + strlen(LINE_END) > (size_t)(end - in)) {
			return -EPROTO;
		}
		memmove(out, in, size);
		out += size;
		in += size + strlen(LINE_END);
	}
}

/* The body alone becomes the answer. */
static int take_body(struct answer_text *text, char *body, struct smd_exchange *exchange,
	struct smd_error *error)
{
	size_t length = text->length - (size_t)(body - text->bytes);
	const char *encoding = header_of(text->bytes, "Transfer-Encoding");
	const char *stated = header_of(text->bytes, "Content-Length");
	int ret = 0;

	if (encoding && strncasecmp(encoding, "chunked", 7) == 0) {
		ret = join_chunks(body, &length);
	} else if (stated && strtoull(stated, NULL, 10) > length) {
		ret = -EPROTO;
	} else if (stated) {
		length = strtoull(stated, NULL, 10);
	}
	if (ret) {
		return smd_error_set(error, EPROTO, "the answer must be whole");
	}
	memmove(text->bytes, body, length);
	text->bytes[length] = '\0';
	exchange->answer = text->bytes;
	exchange->answer_length = length;
	text->bytes = NULL;
	return 0;
}

static int read_answer(
	struct smd_channel *channel, struct smd_exchange *exchange, struct smd_error *error)
{
	struct answer_text text = {.bytes = NULL};
	char *end = NULL;
	int ret;

	do {
		ret = read_more(channel, HEAD_MAX + exchange->answer_max, &text, error);
	} while (ret == 0);
	if (ret > 0) {
		end = strstr(text.bytes, HEAD_END);
		ret = end && sscanf(text.bytes, "HTTP/1.%*1d %3d", &exchange->status) == 1
			      ? 0
			      : smd_error_set(error, EPROTO, "the answer must be one of HTTP");
	}
	if (!ret) {
		end[strlen(LINE_END)] = '\0'; /* of the head, whose last line keeps its end */
		ret = take_body(&text, end + strlen(HEAD_END), exchange, error);
	}
	free(text.bytes);
	return ret;
}

/* Who refuses may do so before all was written. */
static int converse(struct smd_channel *channel, const struct smd_url *url,
	struct smd_exchange *exchange, struct smd_error *error)
{
	struct smd_error reason = {""};
	int ret = write_request(channel, url, exchange, &reason);

	if (!ret) {
		return read_answer(channel, exchange, error);
	}
	return read_answer(channel, exchange, NULL) == 0
		       ? 0
		       : smd_error_set(error, -ret, "%s", reason.text);
}

int smd_exchange(const struct smd_url *url, const struct smd_http_reach *reach,
	struct smd_exchange *exchange, struct smd_error *error)
{
	uint64_t deadline_ns = smd_clock_ns() + reach->timeout_s * SMD_SECOND_NS;
	struct smd_error reason = {""};
	struct smd_channel *channel;
	int ret = smd_channel_open(url, reach, deadline_ns, &channel, &reason);

	exchange->status = 0;
	exchange->answer = NULL;
	exchange->answer_length = 0;
	if (!ret) {
		ret = converse(channel, url, exchange, &reason);
		smd_channel_close(channel);
	}
	return ret ? smd_error_set(error, -ret, "%s: %s", url->authority, reason.text) : 0;
}
