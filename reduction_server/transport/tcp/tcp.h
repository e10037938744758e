/*
 * What the files of the TCP transport share: the lane, and how it comes to be.
 */
#ifndef SMD_TRANSPORT_TCP_TCP_H
#define SMD_TRANSPORT_TCP_TCP_H

#include <netinet/tcp.h>
#include <stdbool.h>
#include <sys/types.h>

#include "reduction_server/base/forks.h"
#include "reduction_server/transport/transports.h"

struct event;
struct iovec;
struct tcp_lane;
struct tcp_tls;
struct tcp_zeros;

/* How a lane's bytes cross its socket: as they are (plain.c), or in records of TLS (tls_stream.c).
 * One call takes many frames. */
struct tcp_stream {
	/* As readv(): 0 is the end, and fewer than fit mean that no more are there now. */
	ssize_t (*receive)(struct tcp_lane *tcp, const struct iovec *iov, int n);
	/* As sendmsg(), without a signal. What it has taken is no longer needed. */
	ssize_t (*send)(struct tcp_lane *tcp, struct iovec *iov, int n);
};

/* Bytes that one read may take beyond the payload that it is for. */
#define SMD_TCP_AHEAD_MAX (16u << 10)

#ifndef TCP_RTO_MAX_MS
#define TCP_RTO_MAX_MS 44 /* since Linux 6.15 */
#endif

/* What is known of the other end's machine, of a lane with keepalive only. */
struct tcp_watch {
	bool wanted;
	unsigned patience_ms; /* that it may answer nothing */
	struct event *timer;  /* NULL: on no loop */
	uint64_t heard_ms;    /* the last answer */
	uint32_t tries;       /* of our kernel, until then or a little later */
};

/* What a lane has that was closed with its last words on their way (linger.c). */
struct tcp_linger {
	struct event *patience;
	bool said_all;
	size_t dropped; /* bytes of the other end's */
	LIST_ENTRY(tcp_lane) link;
};

struct tcp_lane {
	struct smd_lane lane;
	int fd;
	const struct tcp_stream *stream;
	struct tcp_tls *tls;          /* NULL: plain */
	bool securing;                /* TLS is not agreed on yet: there are no frames before */
	bool unsent;                  /* the stream has taken bytes that the socket has not */
	struct smd_fork_entry forked; /* a child has no use for the socket */
	struct event_base *base;
	struct event *readable;
	struct event *writable;
	const struct smd_lane_callbacks *callbacks;
	void *owner;
	bool connecting;
	bool poll_only; /* the loop does not watch the socket */
	unsigned polls; /* at a full socket */
	bool talked;    /* has sent, since it was told to acknowledge at once */
	bool ended;     /* on_closed() has been called */
	bool closed;
	bool lingers;  /* though it is closed */
	bool settling; /* in the done() of what has just left: the queue is not what is unsent */
	struct tcp_linger linger;
	int write_err; /* a failed write; reported by the next read event */
	struct tcp_watch watch;

	uint32_t rx_ahead_at;     /* where the first byte is; 0 while nothing is being taken */
	uint32_t rx_ahead_length; /* from there */
	struct smd_frame rx_frame;
	uint8_t *rx_payload; /* NULL: between frames */
	uint32_t rx_payload_got;

	struct smd_send_queue tx;
	struct tcp_zeros *zeros; /* zeros.h; NULL: they are sent */
	char peer[128];

	/* Received, and not yet part of a frame. Last, and not cleared: an idle lane touches none
	 * of it. */
	uint8_t rx_ahead[SMD_TCP_AHEAD_MAX];
};

/* A lane over the socket, which it owns from now on; not attached. NULL: out of memory. */
struct tcp_lane *smd_tcp_lane_create(int fd);

/* Attaches the lane; one that connects waits for that first. -ENOMEM leaves nothing to undo. */
int smd_tcp_lane_enter_loop(struct tcp_lane *tcp, struct event_base *base,
	const struct smd_lane_callbacks *callbacks, void *owner);

extern const struct tcp_stream smd_tcp_plain;

/* Tells the owner, once, that the lane is over. From its loop or a poll only. */
void smd_tcp_ended(struct tcp_lane *tcp, int err, const char *reason);
/* Takes what the socket has. The lane may be detached, over or closed afterwards. */
void smd_tcp_receive(struct tcp_lane *tcp);
/* Writes what the socket takes now; the rest when it takes more. */
void smd_tcp_flush(struct tcp_lane *tcp);

/* Of a lane that is being closed: whether it lingers, and will free itself. */
bool smd_tcp_linger(struct tcp_lane *tcp);
/* Says what the socket takes, and drops what has come; frees the lane when it is over. */
void smd_tcp_linger_turn(struct tcp_lane *tcp);
/* The last moment of the loop's lanes that linger. */
void smd_tcp_loop_end(struct event_base *base);

/* From now on the other end may read nothing for long. */
void smd_tcp_watch_begin(struct tcp_watch *watch, int fd, unsigned patience_ms);
/* What the kernel says of a connection, as far as it shows whether the other end's machine answers.
 */
struct tcp_signs {
	uint32_t silence_ms; /* since the last answer */
	uint32_t tries;      /* of our kernel without an answer, since the connection was made */
	uint32_t probes;     /* of a full receive buffer, since the last answer */
};
/* 0, or for how long the other end's machine has answered nothing, when that is too long. */
unsigned smd_tcp_watch_judge(
	struct tcp_watch *watch, const struct tcp_signs *signs, uint64_t now_ms);
/* The same of the socket, now. */
unsigned smd_tcp_watch_silence_ms(struct tcp_watch *watch, int fd);
/* Polls it from time to time, once the lane is on a loop. */
void smd_tcp_watch_enter_loop(struct tcp_lane *tcp);

int smd_tcp_connect(struct event_base *base, const char *address, const struct smd_origin *origin,
	unsigned shard, const struct smd_lane_callbacks *callbacks, void *owner,
	struct smd_lane **out, struct smd_error *error);
int smd_tcp_listen(struct event_base *base, const char *address, smd_accept *on_accept, void *owner,
	struct smd_listener **out, char bound[128], struct smd_error *error);
void smd_tcp_listener_close(struct smd_listener *listener);

#endif
