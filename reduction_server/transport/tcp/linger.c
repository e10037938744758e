/*
 * A lane that was closed when it had just said why: it lingers until the other end can have read
 * that.
 *
 * A kernel that gets bytes for a closed socket answers with a reset, and the other end then loses
 * what it has not read yet. So the lane says what is left to say and that this is all, and drops
 * what it is still sent. How many lanes linger, for how long, and how much they drop is bounded: it
 * is a kindness to who has broken a rule.
 */
#include <errno.h>
#include <event2/event.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/transport/tcp/tcp.h"
#include "reduction_server/transport/tcp/tls.h"
#include "reduction_server/transport/tcp/zeros.h"

#define LINGER_LANES   64 /* of the process */
#define LINGER_BYTES   (64u << 20)
#define LINGER_TURN    (1u << 20) /* bytes dropped before others have their turn */
#define LINGER_S       1
#define LINGER_LAST_MS 100 /* of a loop that ends */
#define MS_NS          1000000u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, tcp_lane) lingering = LIST_HEAD_INITIALIZER(lingering);
static unsigned nlingering;

/* ---- what is left to say ---- */

/* A frame of which the beginning has left, whose end its owner no longer keeps. */
struct rest {
	struct smd_send send;
	uint8_t payload[];
};

static void rest_done(struct smd_send *send, int err)
{
	(void)err;
	free(send->owner);
}

static int linger_keep_rest(struct tcp_lane *tcp, struct smd_send *begun)
{
	uint32_t sent = begun->sent < SMD_FRAME_SIZE ? 0 : begun->sent - SMD_FRAME_SIZE;
	const uint8_t *payload = begun->payload;
	struct rest *rest = malloc(sizeof(*rest) + begun->length);

	if (!rest) {
		return -ENOMEM;
	}
	rest->send = (struct smd_send){
		.payload = rest->payload,
		.length = begun->length,
		.sent = begun->sent,
		.looked = true,
		.done = rest_done,
		.owner = rest,
		.self_contained = true,
	};
	memcpy(rest->send.header, begun->header, sizeof(rest->send.header));
	if (begun->length) {
		memcpy(rest->payload + sent, payload + sent, begun->length - sent);
		smd_tcp_tls_move(tcp, payload, begun->length, rest->payload);
	}
	TAILQ_REMOVE(&tcp->tx, begun, link);
	TAILQ_INSERT_HEAD(&tcp->tx, &rest->send, link);
	smd_tcp_zeros_pass(tcp, begun, &rest->send);
	begun->done(begun, -ECANCELED);
	return 0;
}

/* Only what needs nothing of the owner's stays. */
static int linger_keep_words(struct tcp_lane *tcp)
{
	struct smd_send *send = TAILQ_FIRST(&tcp->tx);

	if (send && !send->self_contained && smd_tcp_has_begun(tcp, send) &&
		linger_keep_rest(tcp, send)) {
		return -ENOMEM;
	}
	send = TAILQ_FIRST(&tcp->tx);
	while (send) {
		struct smd_send *next = TAILQ_NEXT(send, link);

		if (!send->self_contained) {
			TAILQ_REMOVE(&tcp->tx, send, link);
			smd_tcp_zeros_pass(tcp, send, NULL);
			send->done(send, -ECANCELED);
		}
		send = next;
	}
	return 0;
}

static void linger_say(struct tcp_lane *tcp)
{
	smd_tcp_flush(tcp);
	if (!tcp->linger.said_all && !tcp->write_err && !tcp->unsent && TAILQ_EMPTY(&tcp->tx)) {
		tcp->linger.said_all = true;
		smd_tcp_tls_close(tcp);
		(void)shutdown(tcp->fd, SHUT_WR);
	}
}

/* ---- the end ---- */

static void linger_end(struct tcp_lane *tcp)
{
	pthread_mutex_lock(&lock);
	LIST_REMOVE(tcp, linger.link);
	nlingering--;
	pthread_mutex_unlock(&lock);
	event_free(tcp->readable);
	event_free(tcp->writable);
	event_free(tcp->linger.patience);
	smd_forks_forget(&tcp->forked);
	smd_tcp_tls_close(tcp);
	close(tcp->fd);
	while (!TAILQ_EMPTY(&tcp->tx)) {
		struct smd_send *send = TAILQ_FIRST(&tcp->tx);

		TAILQ_REMOVE(&tcp->tx, send, link);
		send->done(send, -ECANCELED);
	}
	free(tcp->tls);
	free(tcp->zeros);
	free(tcp);
}

static void linger_on_time(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	linger_end(arg);
}

/* TCP drops it without a copy. Not by recv(), which the thread sanitizer takes for writing. */
static ssize_t drop_some(int fd)
{
	return syscall(SYS_recvfrom, fd, NULL, (size_t)LINGER_TURN, MSG_TRUNC, NULL, NULL);
}

/* Drops what has come. Whether the other end has gone. */
static bool linger_drop(struct tcp_lane *tcp)
{
	size_t turn = 0;

	while (turn < LINGER_TURN && tcp->linger.dropped < LINGER_BYTES) {
		ssize_t got = drop_some(tcp->fd);

		if (got < 0 && errno == EINTR) {
			continue;
		}
		if (got < 0) {
			return errno != EAGAIN && errno != EWOULDBLOCK;
		}
		if (got == 0) {
			return true;
		}
		turn += (size_t)got;
		tcp->linger.dropped += (size_t)got;
	}
	if (tcp->linger.dropped >= LINGER_BYTES) {
		event_del(tcp->readable); /* what it has not read by now it may not get */
	}
	return false;
}

void smd_tcp_linger_turn(struct tcp_lane *tcp)
{
	linger_say(tcp);
	if (tcp->write_err || linger_drop(tcp)) {
		linger_end(tcp);
	}
}

/* ---- the beginning ---- */

static bool linger_enter(struct tcp_lane *tcp)
{
	bool may;

	pthread_mutex_lock(&lock);
	may = nlingering < LINGER_LANES;
	if (may) {
		nlingering++;
		LIST_INSERT_HEAD(&lingering, tcp, linger.link);
	}
	pthread_mutex_unlock(&lock);
	return may;
}

bool smd_tcp_linger(struct tcp_lane *tcp)
{
	const struct timeval most = {LINGER_S, 0};

	if (!tcp->base || tcp->connecting || tcp->securing || tcp->write_err || tcp->poll_only ||
		tcp->settling) {
		return false;
	}
	tcp->linger.patience = evtimer_new(tcp->base, linger_on_time, tcp);
	if (!tcp->linger.patience || evtimer_add(tcp->linger.patience, &most) != 0 ||
		event_add(tcp->readable, NULL) != 0 || linger_keep_words(tcp) ||
		!linger_enter(tcp)) {
		if (tcp->linger.patience) {
			event_free(tcp->linger.patience);
		}
		return false;
	}
	if (tcp->watch.timer) {
		event_free(tcp->watch.timer);
		tcp->watch.timer = NULL;
	}
	tcp->lingers = true;
	linger_say(tcp);
	return true;
}

/* ---- the end of the loop ---- */

/* Those of the loop; they change on its thread only. */
static unsigned linger_find(const struct event_base *base, struct tcp_lane *lanes[LINGER_LANES])
{
	struct tcp_lane *tcp;
	unsigned n = 0;

	pthread_mutex_lock(&lock);
	LIST_FOREACH (tcp, &lingering, linger.link) {
		if (tcp->base == base) {
			lanes[n++] = tcp;
		}
	}
	pthread_mutex_unlock(&lock);
	return n;
}

static short linger_awaits(const struct tcp_lane *tcp)
{
	return (short)((tcp->linger.dropped < LINGER_BYTES ? POLLIN : 0) |
		       (tcp->linger.said_all ? 0 : POLLOUT));
}

void smd_tcp_loop_end(struct event_base *base)
{
	uint64_t end_ns = smd_clock_ns() + (uint64_t)LINGER_LAST_MS * MS_NS;
	struct tcp_lane *lanes[LINGER_LANES];
	struct pollfd fds[LINGER_LANES];
	unsigned n;

	while ((n = linger_find(base, lanes)) > 0) {
		uint64_t now = smd_clock_ns();

		for (unsigned i = 0; i < n; i++) {
			fds[i] = (struct pollfd){lanes[i]->fd, linger_awaits(lanes[i]), 0};
		}
		if (now < end_ns) {
			(void)poll(fds, n, (int)((end_ns - now) / MS_NS) + 1);
		}
		for (unsigned i = 0; i < n; i++) {
			if (now >= end_ns) {
				linger_end(lanes[i]);
			} else if (fds[i].revents) {
				smd_tcp_linger_turn(lanes[i]);
			}
		}
	}
}
