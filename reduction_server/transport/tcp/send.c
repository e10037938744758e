/* What a TCP lane sends: gathers headers and payloads of many frames into each write. */
#include <errno.h>
#include <event2/event.h>
#include <sys/uio.h>

#include "reduction_server/transport/tcp/tcp.h"
#include "reduction_server/transport/tcp/zeros.h"

#define TX_IOVECS 32

/* What is left of the payload; false: there is no room for all of it. */
static bool tcp_gather_payload(const struct tcp_lane *tcp, const struct smd_send *send, uint32_t at,
	struct iovec iov[TX_IOVECS], int *n)
{
	while (at < send->length) {
		bool zeros;
		uint32_t end = smd_tcp_zeros_run_out(tcp, send, at, &zeros);

		if (!zeros && *n == TX_IOVECS) {
			return false;
		}
		if (!zeros) {
			iov[*n].iov_base = (uint8_t *)send->payload + at;
			iov[(*n)++].iov_len = end - at;
		}
		at = end;
	}
	return true;
}

static int tcp_gather(struct tcp_lane *tcp, struct iovec iov[TX_IOVECS])
{
	struct smd_send *send;
	int n = 0;

	TAILQ_FOREACH (send, &tcp->tx, link) {
		uint32_t sent = send->sent;
		const uint8_t *before;
		uint32_t unsaid;

		if (n + 3 > TX_IOVECS || !smd_tcp_zeros_look(tcp, send)) {
			break;
		}
		unsaid = smd_tcp_zeros_unsaid(tcp, send, &before);
		if (unsaid) {
			iov[n].iov_base = (uint8_t *)before;
			iov[n++].iov_len = unsaid;
		}
		if (sent < SMD_FRAME_SIZE) {
			iov[n].iov_base = send->header + sent;
			iov[n++].iov_len = SMD_FRAME_SIZE - sent;
			sent = SMD_FRAME_SIZE;
		}
		if (!tcp_gather_payload(tcp, send, sent - SMD_FRAME_SIZE, iov, &n)) {
			break;
		}
	}
	return n;
}

/* Closed, with nothing left to say. */
static bool tcp_is_silent(const struct tcp_lane *tcp)
{
	return tcp->closed && !tcp->lingers;
}

static uint32_t take(size_t *bytes, uint32_t most)
{
	uint32_t taken = *bytes < most ? (uint32_t)*bytes : most;

	*bytes -= taken;
	return taken;
}

/* That many bytes have left: those that are the frame's are taken off. Whether all of it has. */
static bool tcp_frame_sent(struct tcp_lane *tcp, struct smd_send *send, size_t *bytes)
{
	const uint8_t *before;
	uint32_t unsaid = smd_tcp_zeros_unsaid(tcp, send, &before);

	if (unsaid) {
		smd_tcp_zeros_said(tcp, take(bytes, unsaid));
	}
	if (send->sent < SMD_FRAME_SIZE) {
		send->sent += take(bytes, SMD_FRAME_SIZE - send->sent);
	}
	while (send->sent >= SMD_FRAME_SIZE && send->sent - SMD_FRAME_SIZE < send->length) {
		uint32_t at = send->sent - SMD_FRAME_SIZE;
		bool zeros;
		uint32_t end = smd_tcp_zeros_run_out(tcp, send, at, &zeros);

		if (!zeros && *bytes == 0) {
			return false;
		}
		tcp->lane.counts.bytes_skipped += zeros ? end - at : 0;
		send->sent += zeros ? end - at : take(bytes, end - at);
	}
	return send->sent >= SMD_FRAME_SIZE;
}

static void tcp_sent(struct tcp_lane *tcp, size_t bytes)
{
	while (bytes && !TAILQ_EMPTY(&tcp->tx)) {
		struct smd_send *send = TAILQ_FIRST(&tcp->tx);

		if (!tcp_frame_sent(tcp, send, &bytes)) {
			return;
		}
		TAILQ_REMOVE(&tcp->tx, send, link);
		smd_tcp_zeros_pass(tcp, send, NULL);
		send->done(send, 0);
		if (tcp_is_silent(tcp)) {
			return;
		}
	}
}

/* Writes what the socket takes now; waits for it to take more if anything is left. */
void smd_tcp_flush(struct tcp_lane *tcp)
{
	while (!tcp_is_silent(tcp) && (!TAILQ_EMPTY(&tcp->tx) || tcp->unsent)) {
		struct iovec iov[TX_IOVECS];
		ssize_t sent = tcp->stream->send(tcp, iov, tcp_gather(tcp, iov));

		if (sent < 0 && errno == EINTR) {
			continue;
		}
		if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
			if (!tcp->poll_only) {
				event_add(tcp->writable, NULL);
			}
			return;
		}
		if (sent < 0) {
			/* Ends must come from the loop. What the peer said before may still be
			 * there to read. */
			tcp->write_err = errno;
			event_active(tcp->readable, EV_READ, 1);
			return;
		}
		tcp->lane.counts.bytes_sent += (size_t)sent;
		tcp->talked = true;
		tcp->settling = true;
		tcp_sent(tcp, (size_t)sent);
		tcp->settling = false;
	}
}
