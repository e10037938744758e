/* What a TCP lane sends: gathers headers and payloads of many frames into each write. */
#include <errno.h>
#include <event2/event.h>
#include <sys/uio.h>

#include "reduction_server/transport/tcp/tcp.h"

#define TX_IOVECS 32

static int tcp_gather(struct tcp_lane *tcp, struct iovec iov[TX_IOVECS])
{
	struct smd_send *send;
	int n = 0;

	TAILQ_FOREACH (send, &tcp->tx, link) {
		uint32_t sent = send->sent;

		if (n + 2 > TX_IOVECS) {
			break;
		}
		if (sent < SMD_FRAME_SIZE) {
			iov[n].iov_base = send->header + sent;
			iov[n++].iov_len = SMD_FRAME_SIZE - sent;
			sent = SMD_FRAME_SIZE;
		}
		if (send->length) {
			iov[n].iov_base = (uint8_t *)send->payload + (sent - SMD_FRAME_SIZE);
			iov[n++].iov_len = send->length - (sent - SMD_FRAME_SIZE);
		}
	}
	return n;
}

/* Closed, with nothing left to say. */
static bool tcp_is_silent(const struct tcp_lane *tcp)
{
	return tcp->closed && !tcp->lingers;
}

static void tcp_sent(struct tcp_lane *tcp, size_t bytes)
{
	while (bytes && !TAILQ_EMPTY(&tcp->tx)) {
		struct smd_send *send = TAILQ_FIRST(&tcp->tx);
		size_t missing = SMD_FRAME_SIZE + (size_t)send->length - send->sent;

		if (bytes < missing) {
			send->sent += (uint32_t)bytes;
			return;
		}
		bytes -= missing;
		TAILQ_REMOVE(&tcp->tx, send, link);
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
