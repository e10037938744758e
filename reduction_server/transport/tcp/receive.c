/*
 * What a TCP lane receives: scatters it into the final buffers, and hands out frames.
 *
 * A read is for the payload that is coming in, right into where on_header() said, and for what
 * comes after it: the next header, and while frames are small as much as `rx_ahead` holds.
 * So a stream of large chunks costs one system call per socket buffer and no copy, and small frames
 * cost one call and a copy of a few KiB instead of two calls each. A read that gets less than it
 * asked for has emptied the socket: it is not asked again before it is readable. A read event
 * handles about RX_BUDGET bytes, so that one fast lane does not starve the others of its loop.
 */
#include <errno.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "reduction_server/base/peek.h"
#include "reduction_server/transport/tcp/tcp.h"
#include "reduction_server/transport/tcp/tls.h"
#include "reduction_server/transport/tcp/zeros.h"

#define RX_BUDGET     (1u << 20)
#define RX_IOVECS     32
#define QUICKACK_FROM (64u << 10)
#define PAGE          4096u

/* The frame that is coming in is for the lane itself. */
static bool tcp_is_own(const struct tcp_lane *tcp)
{
	return tcp->rx_frame.kind == SMD_FRAME_ZEROS;
}

/* Where the payload goes. */
static int tcp_place(struct tcp_lane *tcp, void **payload, struct smd_error *error)
{
	int ret;

	if (tcp_is_own(tcp)) {
		return smd_tcp_zeros_begin(tcp, &tcp->rx_frame, payload, error);
	}
	ret = smd_tcp_zeros_apply(tcp, &tcp->rx_frame, error);
	return ret ? ret : tcp->callbacks->on_header(tcp->owner, &tcp->rx_frame, payload, error);
}

/* A header is whole: 0 to go on, 1 when the lane was closed or has ended. */
static int tcp_take_header(struct tcp_lane *tcp, const uint8_t header[SMD_FRAME_SIZE])
{
	struct smd_error error = {""};
	void *payload = tcp->rx_ahead; /* any address will do for an empty payload */
	int ret = smd_frame_decode(header, &tcp->rx_frame, &error);

	if (ret == 0) {
		ret = tcp_place(tcp, &payload, &error);
	}
	if (tcp->closed) {
		return 1;
	}
	if (ret && smd_tcp_refuse_tls(tcp, header)) {
		smd_tcp_ended(tcp, -EPROTO, "it speaks TLS, and this end does not");
		return 1;
	}
	if (ret) {
		smd_tcp_ended(tcp, ret, error.text);
		return 1;
	}
	tcp->rx_payload = payload;
	tcp->rx_payload_got = 0;
	smd_tcp_zeros_fill(tcp);
	return 0;
}

/* 1 when the lane was detached, was closed or has ended. */
static int tcp_take_frame(struct tcp_lane *tcp)
{
	struct smd_error error = {""};
	void *payload = tcp->rx_payload;
	int ret;

	tcp->rx_payload = NULL;
	if (tcp_is_own(tcp)) {
		smd_tcp_zeros_begun(tcp, &tcp->rx_frame);
		return 0;
	}
	ret = tcp->callbacks->on_frame(tcp->owner, &tcp->rx_frame, payload, &error);
	if (ret == SMD_LANE_DETACHED || tcp->closed) {
		return 1;
	}
	if (ret) {
		smd_tcp_ended(tcp, ret, error.text);
		return 1;
	}
	return 0;
}

/* Of so many bytes, those that go where the payload goes on have come: how many, up to the next
 * zeros, which are filled in. */
static uint32_t tcp_advance(struct tcp_lane *tcp, size_t got)
{
	bool zeros;
	uint32_t most =
		smd_tcp_zeros_run_in(tcp, tcp->rx_payload_got, &zeros) - tcp->rx_payload_got;
	uint32_t taken = got < most ? (uint32_t)got : most;

	tcp->rx_payload_got += taken;
	if (taken == most) {
		smd_tcp_zeros_fill(tcp);
	}
	return taken;
}

static const uint8_t *tcp_consume_ahead(struct tcp_lane *tcp, uint32_t bytes)
{
	const uint8_t *first = tcp->rx_ahead + tcp->rx_ahead_at;

	tcp->rx_ahead_at += bytes;
	tcp->rx_ahead_length -= bytes;
	return first;
}

/*
 * To where the payload goes. A caller's buffer may be such that it cannot be written: the kernel
 * says so, as of what it puts there itself. It takes 5 us for that, where 4 KiB take 100 in all:
 * what has no more than a page is in two, the first and the last of a buffer, which an operation
 * asks for when it begins.
 */
static int tcp_put(struct tcp_lane *tcp, uint8_t *to, const uint8_t *from, uint32_t bytes)
{
	if (tcp->callbacks->callers_memory && tcp->rx_frame.length > PAGE && !tcp_is_own(tcp)) {
		if (smd_poke(to, from, bytes)) {
			return 0;
		}
		if (errno == EFAULT) {
			return -EFAULT;
		}
	}
	memcpy(to, from, bytes);
	return 0;
}

/*
 * Makes frames of what was read ahead. 1 when the lane was detached, was closed or has ended: it is
 * then not looked at any more, because another thread may have it.
 */
static int tcp_take_ahead(struct tcp_lane *tcp)
{
	while (tcp->rx_ahead_length >= SMD_FRAME_SIZE) {
		if (tcp_take_header(tcp, tcp_consume_ahead(tcp, SMD_FRAME_SIZE))) {
			return 1;
		}
		while (tcp->rx_payload_got < tcp->rx_frame.length && tcp->rx_ahead_length) {
			uint8_t *to = tcp->rx_payload + tcp->rx_payload_got;
			uint32_t taken = tcp_advance(tcp, tcp->rx_ahead_length);

			if (tcp_put(tcp, to, tcp_consume_ahead(tcp, taken), taken)) {
				smd_tcp_ended(tcp, -EFAULT, strerror(EFAULT));
				return 1;
			}
		}
		if (tcp->rx_payload_got < tcp->rx_frame.length) {
			break; /* and nothing is left */
		}
		if (tcp_take_frame(tcp)) {
			return 1;
		}
	}
	memmove(tcp->rx_ahead, tcp->rx_ahead + tcp->rx_ahead_at, tcp->rx_ahead_length);
	tcp->rx_ahead_at = 0;
	return 0;
}

/* Gives out what `got` more bytes have completed. 1 when the lane was closed or has ended. */
static int tcp_received(struct tcp_lane *tcp, size_t got)
{
	if (tcp->rx_payload) {
		while (got && tcp->rx_payload_got < tcp->rx_frame.length) {
			got -= tcp_advance(tcp, got);
		}
		if (tcp->rx_payload_got < tcp->rx_frame.length) {
			if (tcp->callbacks->on_part && !tcp_is_own(tcp)) {
				tcp->callbacks->on_part(
					tcp->owner, &tcp->rx_frame, tcp->rx_payload_got);
			}
		} else if (tcp_take_frame(tcp)) {
			return 1;
		}
	}
	tcp->rx_ahead_length += (uint32_t)got;
	return tcp_take_ahead(tcp);
}

/* Reads into the payload and ahead of it: at most *asked bytes. */
static ssize_t tcp_read(struct tcp_lane *tcp, size_t *asked)
{
	bool small = tcp->rx_frame.length < SMD_TCP_AHEAD_MAX;
	struct iovec iov[RX_IOVECS];
	uint32_t at = tcp->rx_payload ? tcp->rx_payload_got : tcp->rx_frame.length;
	int n = 0;

	*asked = 0;
	while (at < tcp->rx_frame.length && n < RX_IOVECS) {
		bool zeros;
		uint32_t end = smd_tcp_zeros_run_in(tcp, at, &zeros);

		if (!zeros) {
			iov[n].iov_base = tcp->rx_payload + at;
			iov[n].iov_len = end - at;
			*asked += iov[n++].iov_len;
		}
		at = end;
	}
	if (n < RX_IOVECS) {
		iov[n].iov_base = tcp->rx_ahead + tcp->rx_ahead_length;
		iov[n].iov_len =
			(small ? SMD_TCP_AHEAD_MAX : SMD_FRAME_SIZE) - tcp->rx_ahead_length;
		*asked += iov[n++].iov_len;
	}
	return tcp->stream->receive(tcp, iov, n);
}

/*
 * The kernel takes a socket that has just sent for one that talks in turns, and acknowledges late.
 * Who sends it much then waits for room, and finds its memory out of the caches: half as fast.
 */
static void tcp_acknowledge_at_once(struct tcp_lane *tcp)
{
	const int yes = 1;

	if (tcp->talked && tcp->rx_payload && tcp->rx_frame.length >= QUICKACK_FROM) {
		tcp->talked = false;
		(void)setsockopt(tcp->fd, IPPROTO_TCP, TCP_QUICKACK, &yes, sizeof(yes));
	}
}

/* Nothing is left to read: the other end has closed it, or a write was told why it is over. */
static void tcp_drained(struct tcp_lane *tcp)
{
	if (tcp->write_err && tcp->write_err != EPIPE && tcp->write_err != ECONNRESET) {
		smd_tcp_ended(tcp, -tcp->write_err, strerror(tcp->write_err));
	} else {
		smd_tcp_ended(tcp, -ECONNRESET, "the other end closed the connection");
	}
}

void smd_tcp_receive(struct tcp_lane *tcp)
{
	size_t total = 0;
	size_t asked = 0;
	ssize_t got = 0;

	if (tcp->securing && smd_tcp_secure(tcp)) {
		return;
	}
	if (tcp_take_ahead(tcp)) { /* what came before the lane was on this loop */
		return;
	}
	while (total < RX_BUDGET && ((size_t)got == asked || tcp->write_err)) {
		got = tcp_read(tcp, &asked);
		if (got < 0 && errno == EINTR) {
			got = (ssize_t)asked;
			continue;
		}
		if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) && !tcp->write_err) {
			return;
		}
		if (got < 0) {
			int err = tcp->write_err ? tcp->write_err : errno;

			smd_tcp_ended(tcp, -err, smd_tcp_tls_reason(tcp, err));
			return;
		}
		if (got == 0) {
			tcp_drained(tcp);
			return;
		}
		smd_lane_received(&tcp->lane, (size_t)got);
		total += (size_t)got;
		if (tcp_received(tcp, (size_t)got)) {
			return;
		}
		total += smd_tcp_zeros_filled(tcp);
		tcp_acknowledge_at_once(tcp);
	}
	if (tcp->tls && !tcp->poll_only && smd_tcp_tls_holds(tcp)) {
		event_active(tcp->readable, EV_READ, 1);
	}
}
