/* Moves frames through a byte stream, and notices when the other end is gone. */
#include "worker/agent/wire/link.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reduction_server/base/bytes.h"
#include "reduction_server/base/clock.h"

#define READ_SIZE  (64u << 10)
#define WRITE_SIZE (64u << 10)
#define ROOM_MARK  (256u << 10) /* on_room() is called when less than this is left again */
#define FIRST_S    10           /* for TLS to be agreed on */
#define TICKS      15           /* looks at the other end in the time after which it is given up */

struct smd_agent_link {
	struct smd_agent_link_options options;
	struct event *readable;
	struct event *writable;
	struct event *tick; /* NULL: silence is no sign */
	struct smd_agent_tls *tls;
	struct evbuffer *unsent;
	int was_full;
	uint8_t *rx; /* what has come and is no whole frame yet */
	size_t rx_size;
	size_t rx_used;
	uint64_t opened_ns;
	uint64_t heard_ns;
	uint64_t sent_ns;
	uint64_t ticked_ns;
	int has_begun; /* a frame has come */
	int is_over;
	int depth;     /* callbacks that are being run */
	int is_closed; /* in one of them */
};

static enum smd_agent_end other_end(const struct smd_agent_link *link)
{
	return link->options.end == SMD_AGENT_RUNNER ? SMD_AGENT_HOST : SMD_AGENT_RUNNER;
}

static void link_free(struct smd_agent_link *link)
{
	if (link->readable) {
		event_free(link->readable);
	}
	if (link->writable) {
		event_free(link->writable);
	}
	if (link->tick) {
		event_free(link->tick);
	}
	smd_agent_tls_close(link->tls);
	close(link->options.read_fd);
	if (link->options.write_fd != link->options.read_fd) {
		close(link->options.write_fd);
	}
	if (link->unsent) {
		evbuffer_free(link->unsent);
	}
	free(link->rx);
	free(link);
}

static void enter(struct smd_agent_link *link)
{
	link->depth++;
}

static void leave(struct smd_agent_link *link)
{
	link->depth--;
	if (link->depth == 0 && link->is_closed) {
		link_free(link);
	}
}

void smd_agent_link_hand_over(
	struct smd_agent_link *link, const struct smd_agent_link_callbacks *callbacks, void *owner)
{
	link->options.callbacks = callbacks;
	link->options.owner = owner;
}

void smd_agent_link_close(struct smd_agent_link *link)
{
	if (!link) {
		return;
	}
	link->is_over = 1;
	link->is_closed = 1;
	if (link->depth == 0) {
		link_free(link);
	}
}

__attribute__((format(printf, 2, 3))) static void end(
	struct smd_agent_link *link, const char *format, ...)
{
	char reason[SMD_AGENT_REASON_SIZE];
	va_list args;

	if (link->is_over) {
		return;
	}
	link->is_over = 1;
	event_del(link->readable);
	event_del(link->writable);
	if (link->tick) {
		event_del(link->tick);
	}
	va_start(args, format);
	vsnprintf(reason, sizeof(reason), format, args);
	va_end(args);
	enter(link);
	link->options.callbacks->on_over(link->options.owner, reason);
	leave(link);
}

/* ---- sending ---- */

/* Bytes that the stream has taken; 0: it takes none now; -1: the connection is over. */
static long write_once(struct smd_agent_link *link, int *wants_write)
{
	char reason[SMD_AGENT_REASON_SIZE];
	size_t length = evbuffer_get_length(link->unsent);
	size_t count = length < WRITE_SIZE ? length : WRITE_SIZE;
	const void *bytes = evbuffer_pullup(link->unsent, (ev_ssize_t)count);
	long taken;

	if (!bytes) {
		end(link, "out of memory");
		return -1;
	}
	if (link->tls) {
		taken = smd_agent_tls_write(link->tls, bytes, count, wants_write, reason);
	} else {
		taken = write(link->options.write_fd, bytes, count);
		if (taken < 0) {
			taken = errno == EINTR || errno == EAGAIN ? -EAGAIN : -errno;
			snprintf(reason, sizeof(reason), "the connection was cut: %s",
				strerror((int)-taken));
			*wants_write = 1;
		}
	}
	if (taken == -EAGAIN) {
		return 0;
	}
	if (taken < 0) {
		end(link, "%s", reason);
		return -1;
	}
	evbuffer_drain(link->unsent, (size_t)taken);
	return taken;
}

size_t smd_agent_link_flush(struct smd_agent_link *link)
{
	int wants_write = 0;
	size_t left;

	enter(link);
	while (!link->is_over && evbuffer_get_length(link->unsent) > 0 &&
		write_once(link, &wants_write) > 0) {
	}
	left = link->is_over ? 0 : evbuffer_get_length(link->unsent);
	if (left > 0 && wants_write) {
		event_add(link->writable, NULL);
	} else if (!link->is_over) {
		event_del(link->writable);
	}
	if (!link->is_over && link->was_full && left < ROOM_MARK) {
		link->was_full = 0;
		if (link->options.callbacks->on_room) {
			link->options.callbacks->on_room(link->options.owner);
		}
	}
	leave(link);
	return left;
}

size_t smd_agent_link_unsent(const struct smd_agent_link *link)
{
	return link->is_over ? 0 : evbuffer_get_length(link->unsent);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	smd_agent_link_flush(arg);
}

void smd_agent_link_send(struct smd_agent_link *link, enum smd_agent_kind kind, const void *first,
	size_t nfirst, const void *second, size_t nsecond)
{
	const struct smd_agent_head head = {.kind = kind, .length = (uint32_t)(nfirst + nsecond)};
	uint8_t bytes[SMD_AGENT_FRAME_HEAD];

	if (link->is_over) {
		return;
	}
	smd_agent_head_encode(&head, bytes);
	if (evbuffer_add(link->unsent, bytes, sizeof(bytes)) ||
		(nfirst && evbuffer_add(link->unsent, first, nfirst)) ||
		(nsecond && evbuffer_add(link->unsent, second, nsecond))) {
		end(link, "out of memory");
		return;
	}
	link->sent_ns = smd_clock_ns();
	if (evbuffer_get_length(link->unsent) >= ROOM_MARK) {
		link->was_full = 1;
	}
	event_add(link->writable, NULL);
}

void smd_agent_link_send_json(struct smd_agent_link *link, enum smd_agent_kind kind, json_t *body)
{
	char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;

	json_decref(body);
	if (text) {
		smd_agent_link_send(link, kind, text, strlen(text), NULL, 0);
	} else {
		end(link, "out of memory");
	}
	free(text);
}

void smd_agent_link_send_credit(struct smd_agent_link *link, uint32_t id, uint32_t credit)
{
	uint8_t body[8];

	smd_put32(body, id);
	smd_put32(body + 4, credit);
	smd_agent_link_send(link, SMD_AGENT_CREDIT, body, sizeof(body), NULL, 0);
}

void smd_agent_link_send_input(
	struct smd_agent_link *link, uint32_t id, const void *bytes, size_t count)
{
	uint8_t head[SMD_AGENT_INPUT_HEAD];

	smd_put32(head, id);
	smd_agent_link_send(link, SMD_AGENT_INPUT, head, sizeof(head), bytes, count);
}

void smd_agent_link_send_resize(struct smd_agent_link *link, uint32_t id, int rows, int columns)
{
	smd_agent_link_send_json(link, SMD_AGENT_RESIZE,
		json_pack("{s:I, s:i, s:i}", "id", (json_int_t)id, "rows", rows, "columns",
			columns));
}

/* ---- receiving ---- */

static void answer_ping(
	struct smd_agent_link *link, const struct smd_agent_head *head, const uint8_t *body)
{
	uint8_t clock[8];

	if (head->kind == SMD_AGENT_PING && head->length == sizeof(clock)) {
		smd_put64(clock, smd_clock_ns());
		smd_agent_link_send(link, SMD_AGENT_PONG, body, head->length, clock, sizeof(clock));
	}
}

/* A whole frame: its body is followed by a NUL for the time of the call, for texts. */
static void take_frame(
	struct smd_agent_link *link, const struct smd_agent_head *head, uint8_t *body)
{
	struct smd_error error = {""};
	uint8_t behind = body[head->length];

	if (head->kind == SMD_AGENT_PING || head->kind == SMD_AGENT_PONG) {
		answer_ping(link, head, body);
		return;
	}
	body[head->length] = '\0';
	if (link->options.callbacks->on_frame(link->options.owner, head, body, &error) &&
		!link->is_closed) {
		end(link, "%s", error.text);
	}
	body[head->length] = behind;
}

/* Makes place for `size` bytes and the NUL. */
static int reserve(struct smd_agent_link *link, size_t size)
{
	uint8_t *rx;

	if (link->rx_size > size) {
		return 0;
	}
	rx = realloc(link->rx, size + 1);
	if (!rx) {
		end(link, "out of memory");
		return -ENOMEM;
	}
	link->rx = rx;
	link->rx_size = size + 1;
	return 0;
}

#define QUOTED_MOST 40

/* Where shells print something when they start, that comes before the agent's first frame. */
static int begins_with_text(const struct smd_agent_link *link, char quoted[QUOTED_MOST + 1])
{
	size_t n = 0;

	if (link->has_begun || link->tls) {
		return 0;
	}
	for (size_t i = 0; i < link->rx_used && n < QUOTED_MOST; i++) {
		uint8_t byte = link->rx[i];

		if (byte == '\n' || byte == '\r') {
			break;
		}
		if (byte < 0x20 || byte > 0x7e) {
			return 0;
		}
		quoted[n++] = (char)byte;
	}
	quoted[n] = '\0';
	return n > 0;
}

/* What came is no frame. */
static void refuse_bytes(struct smd_agent_link *link, const char *reason)
{
	char quoted[QUOTED_MOST + 1];

	if (begins_with_text(link, quoted)) {
		end(link,
			"it must begin with the agent's greeting, got \"%s\": let the shell there "
			"print "
			"nothing when it starts (.bashrc)",
			quoted);
	} else {
		end(link, "%s", reason);
	}
}

/* Takes the whole frames that are there, and makes place for the rest of the next one. */
static void take_frames(struct smd_agent_link *link)
{
	size_t at = 0;
	size_t need = READ_SIZE;

	while (!link->is_over && link->rx_used - at >= SMD_AGENT_FRAME_HEAD) {
		struct smd_agent_head head;
		const char *reason;

		if (smd_agent_head_decode(link->rx + at, other_end(link), &head, &reason)) {
			refuse_bytes(link, reason);
			return;
		}
		if (link->rx_used - at < SMD_AGENT_FRAME_HEAD + head.length) {
			need = SMD_AGENT_FRAME_HEAD + head.length;
			break;
		}
		link->has_begun = 1;
		take_frame(link, &head, link->rx + at + SMD_AGENT_FRAME_HEAD);
		at += SMD_AGENT_FRAME_HEAD + head.length;
	}
	if (link->is_over) {
		return;
	}
	memmove(link->rx, link->rx + at, link->rx_used - at);
	link->rx_used -= at;
	if (need < READ_SIZE) {
		need = READ_SIZE;
	}
	if (link->rx_used == 0 && link->rx_size > 4 * (size_t)READ_SIZE) {
		free(link->rx); /* a large frame's */
		link->rx = NULL;
		link->rx_size = 0;
	}
	reserve(link, need);
}

/* As read(), with the reason of an error. */
static long read_once(struct smd_agent_link *link, char reason[SMD_AGENT_REASON_SIZE])
{
	uint8_t *to = link->rx + link->rx_used;
	size_t room = link->rx_size - 1 - link->rx_used;
	int wants_write = 0;
	long got;

	if (link->tls) {
		got = smd_agent_tls_read(link->tls, to, room, &wants_write, reason);
		if (wants_write) {
			event_add(link->writable, NULL);
		}
		return got;
	}
	got = read(link->options.read_fd, to, room);
	if (got < 0) {
		got = errno == EINTR || errno == EAGAIN ? -EAGAIN : -errno;
		snprintf(reason, SMD_AGENT_REASON_SIZE, "the connection was cut: %s",
			strerror((int)-got));
	}
	return got;
}

/* TLS may hold more than the socket shows, so it is read until it has no more. */
static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct smd_agent_link *link = arg;
	char reason[SMD_AGENT_REASON_SIZE];
	long got;

	(void)fd;
	(void)what;
	enter(link);
	do {
		got = read_once(link, reason);
		if (got == 0) {
			end(link, "the other end closed the connection");
		} else if (got < 0 && got != -EAGAIN) {
			end(link, "%s", reason);
		} else if (got > 0) {
			link->heard_ns = smd_clock_ns();
			link->rx_used += (size_t)got;
			take_frames(link);
		}
	} while (got > 0 && link->tls && !link->is_over);
	if (link->tls && !link->is_over && evbuffer_get_length(link->unsent) > 0) {
		smd_agent_link_flush(link); /* it may have waited for both ends to agree */
	}
	leave(link);
}

static uint64_t tick_ns(const struct smd_agent_link *link)
{
	return link->options.silence_ms / TICKS * (uint64_t)1000000;
}

int smd_agent_link_is_quiet(const struct smd_agent_link *link)
{
	uint64_t silence_ns = link->options.silence_ms * (uint64_t)1000000;

	return silence_ns > 0 && smd_clock_ns() - link->heard_ns > silence_ns / 2;
}

/* Time in which this end has not looked is no silence of the other one's. */
static void forgive_own_delay(struct smd_agent_link *link, uint64_t now)
{
	uint64_t late_ns = now - link->ticked_ns;

	if (late_ns > 2 * tick_ns(link)) {
		link->heard_ns += late_ns - tick_ns(link);
	}
	link->ticked_ns = now;
	if (link->heard_ns > now) {
		link->heard_ns = now;
	}
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct smd_agent_link *link = arg;
	uint64_t now = smd_clock_ns();
	uint64_t silence_ns = link->options.silence_ms * (uint64_t)1000000;
	uint8_t time[8];

	(void)fd;
	(void)what;
	enter(link);
	forgive_own_delay(link, now);
	if (link->tls && !smd_agent_tls_is_secure(link->tls) &&
		now - link->opened_ns > FIRST_S * (uint64_t)SMD_SECOND_NS) {
		end(link, "TLS: the other end has not shown in %d s that it knows the key",
			FIRST_S);
	} else if (now - link->heard_ns + tick_ns(link) > silence_ns) { /* the next look is too late */
		end(link, "nothing has come from the other end for %u s",
			link->options.silence_ms / 1000);
	} else if (now - link->sent_ns >= silence_ns / 4) {
		smd_put64(time, now);
		smd_agent_link_send(link, SMD_AGENT_PING, time, sizeof(time), NULL, 0);
	}
	leave(link);
}

/* ---- beginning ---- */

static int open_events(struct smd_agent_link *link, struct event_base *base)
{
	const struct smd_agent_link_options *options = &link->options;
	unsigned period_ms = options->silence_ms / TICKS;
	const struct timeval period = {
		.tv_sec = period_ms / 1000, .tv_usec = period_ms % 1000 * 1000};

	link->readable = event_new(base, options->read_fd, EV_READ | EV_PERSIST, on_readable, link);
	link->writable = event_new(base, options->write_fd, EV_WRITE, on_writable, link);
	if (options->silence_ms) {
		link->tick = event_new(base, -1, EV_PERSIST, on_tick, link);
		if (!link->tick || event_add(link->tick, &period)) {
			return -ENOMEM;
		}
	}
	return !link->readable || !link->writable || event_add(link->readable, NULL) ? -ENOMEM : 0;
}

int smd_agent_link_open(struct smd_agent_link **out, struct event_base *base,
	const struct smd_agent_link_options *options, struct smd_error *error)
{
	struct smd_agent_link *link = calloc(1, sizeof(*link));
	int ret = 0;

	if (!link) {
		close(options->read_fd);
		if (options->write_fd != options->read_fd) {
			close(options->write_fd);
		}
		return smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
	}
	link->options = *options;
	link->opened_ns = link->heard_ns = link->sent_ns = link->ticked_ns = smd_clock_ns();
	link->unsent = evbuffer_new();
	link->rx = malloc(READ_SIZE + 1);
	link->rx_size = READ_SIZE + 1;
	ret = link->unsent && link->rx ? open_events(link, base) : -ENOMEM;
	if (ret) {
		smd_error_set(error, -ret, "%s", strerror(-ret));
	} else if (options->key) {
		ret = smd_agent_tls_open(
			&link->tls, options->read_fd, options->end, options->key, error);
	}
	if (ret) {
		link_free(link);
		return ret;
	}
	if (link->tls) {
		event_active(link->readable, EV_READ, 0); /* to begin */
	}
	*out = link;
	return 0;
}
