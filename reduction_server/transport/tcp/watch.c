/*
 * Finds out whether the other end's machine is still there, of a lane whose other end may read
 * nothing for as long as it likes.
 *
 * A kernel answers every retransmission, and every probe of a full receive buffer, also for a
 * process that is stopped. When its machine is gone, ours goes on asking for a quarter of an hour
 * or more, and keepalive asks only where nothing is queued. So what our kernel knows is looked at
 * from time to time: that some of its tries have had no answer, and how long ago the last one was.
 * The time alone says nothing, because tries to a full receive buffer become ever rarer.
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/transport/tcp/tcp.h"

#define UNANSWERED_MIN 3   /* fewer may have got lost on the way */
#define IDLE_MOST_S    10  /* as of every lane: a firewall forgets who says nothing for long */
#define PROBES_MOST    127 /* that the kernel can be told to wait for an answer of */
#define SAME_MOMENT_MS 100 /* moments that two polls compute differ by less */

void smd_tcp_watch_begin(struct tcp_watch *watch, int fd, unsigned patience_ms)
{
	const int never = 0;
	const int many = PROBES_MOST;
	const int seldom = (int)patience_ms / 2;
	const int half_s = patience_ms < 4000 ? 1 : (int)patience_ms / 2000;
	const int idle_s = half_s < IDLE_MOST_S ? half_s : IDLE_MOST_S;
	const int probe_s = (int)patience_ms / 1000 / PROBES_MOST + 1;

	watch->wanted = true;
	watch->patience_ms = patience_ms;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &never, sizeof(never));
	/* A kernel without it needs minutes, where the other end has read nothing for minutes. */
	(void)setsockopt(fd, IPPROTO_TCP, TCP_RTO_MAX_MS, &seldom, sizeof(seldom));
	/* Where nothing is queued: as often as the kernel can ask without judging before we do. Who
	 * has answered is asked again when the longer of both times is over. */
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &probe_s, sizeof(probe_s));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &many, sizeof(many));
}

unsigned smd_tcp_watch_judge(
	struct tcp_watch *watch, const struct tcp_signs *signs, uint64_t now_ms)
{
	uint32_t tries;

	/* Only probes are counted anew after an answer. */
	if (now_ms - signs->silence_ms > watch->heard_ms + SAME_MOMENT_MS) {
		watch->heard_ms = now_ms - signs->silence_ms;
		watch->tries = signs->tries;
	}
	tries = signs->tries - watch->tries + signs->probes;
	return tries >= UNANSWERED_MIN && signs->silence_ms > watch->patience_ms ? signs->silence_ms
										 : 0;
}

unsigned smd_tcp_watch_silence_ms(struct tcp_watch *watch, int fd)
{
	struct tcp_signs signs;
	struct tcp_info info;
	socklen_t size = sizeof(info);

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) {
		return 0;
	}
	/* Data that acknowledges nothing new is no ACK to the kernel. */
	signs.silence_ms = info.tcpi_last_ack_recv < info.tcpi_last_data_recv
				   ? info.tcpi_last_ack_recv
				   : info.tcpi_last_data_recv;
	/* The first does not count tries for which there is no route, the second none at a full
	 * receive buffer. */
	signs.tries = info.tcpi_total_retrans + info.tcpi_retransmits;
	signs.probes = info.tcpi_probes;
	return smd_tcp_watch_judge(watch, &signs, smd_clock_ns() / 1000000u);
}
