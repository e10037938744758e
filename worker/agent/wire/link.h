/*
 * One end of the connection between a host's agent and the runner: frames over a byte stream, plain
 * or in TLS, with a bound on silence. It belongs to one loop.
 */
#ifndef SMD_AGENT_WIRE_LINK_H
#define SMD_AGENT_WIRE_LINK_H

#include <jansson.h>

#include "reduction_server/base/error.h"
#include "worker/agent/wire/frame.h"

#define SMD_AGENT_KEY_SIZE 32 /* of the secret that both ends know */
#define SMD_AGENT_REASON_SIZE 256

struct event_base;
struct smd_agent_link;

struct smd_agent_link_callbacks {
	/* A whole frame, but for PING and PONG. The body is the link's, and has a NUL behind it.
	 * -errno with a text ends the connection. */
	int (*on_frame)(void *owner, const struct smd_agent_head *head, const uint8_t *body,
		struct smd_error *error);
	/* The connection is over, once; the owner closes the link, then or later. */
	void (*on_over)(void *owner, const char *reason);
	/* What was to be sent has left, after it was more than a moment's. Or NULL. */
	void (*on_room)(void *owner);
};

struct smd_agent_link_options {
	enum smd_agent_end end; /* this one */
	int read_fd;            /* non-blocking; the link's from now on */
	int write_fd;           /* the same, or one and the same */
	/* NULL: plain. Else TLS over the socket read_fd; the agent is the client. */
	const uint8_t *key;
	unsigned silence_ms; /* after which the other end is given up; 0: never */
	const struct smd_agent_link_callbacks *callbacks;
	void *owner;
};

/* 0, or -errno with a text; the descriptors are closed then, too. */
int smd_agent_link_open(struct smd_agent_link **out, struct event_base *base,
	const struct smd_agent_link_options *options, struct smd_error *error);
/* Somebody else gets the frames from now on. */
void smd_agent_link_hand_over(struct smd_agent_link *link,
	const struct smd_agent_link_callbacks *callbacks, void *owner);
/* Or NULL. What has not been sent is lost. May be called from a callback. */
void smd_agent_link_close(struct smd_agent_link *link);

/* Sends a frame; the body in two parts, of which each may be empty. On a connection that is over it
 * does nothing. */
void smd_agent_link_send(struct smd_agent_link *link, enum smd_agent_kind kind, const void *first,
	size_t nfirst, const void *second, size_t nsecond);
/* The same with a JSON object, which it takes over; NULL, out of memory, ends the connection. */
void smd_agent_link_send_json(struct smd_agent_link *link, enum smd_agent_kind kind, json_t *body);

/* Frames about the process or session of that number: so many bytes more may come, these are its
 * input (none: that has ended), and its terminal has another size. */
void smd_agent_link_send_credit(struct smd_agent_link *link, uint32_t id, uint32_t credit);
void smd_agent_link_send_input(
	struct smd_agent_link *link, uint32_t id, const void *bytes, size_t count);
void smd_agent_link_send_resize(struct smd_agent_link *link, uint32_t id, int rows, int columns);

/* Sends what the stream takes now; what is left waits. Bytes that are left. */
size_t smd_agent_link_flush(struct smd_agent_link *link);
/* Bytes that have been given to the link and not to the stream. */
size_t smd_agent_link_unsent(const struct smd_agent_link *link);
/* Whether nothing has come for half of the time after which the other end is given up: it says
 * something more often. */
int smd_agent_link_is_quiet(const struct smd_agent_link *link);

/* ---- TLS (link_tls.c, or link_tls_absent.c) ---- */

struct smd_agent_tls;

/* 0; -ENOTSUP without OpenSSL, or another -errno, with a text. */
int smd_agent_tls_open(struct smd_agent_tls **out, int fd, enum smd_agent_end end,
	const uint8_t key[SMD_AGENT_KEY_SIZE], struct smd_error *error);
void smd_agent_tls_close(struct smd_agent_tls *tls);
/* As read() and write(): -EAGAIN, with *wants_write where it waits for the socket to take more. 0 of
 * read: the end. Another -errno with a reason. */
long smd_agent_tls_read(struct smd_agent_tls *tls, void *bytes, size_t size, int *wants_write,
	char reason[SMD_AGENT_REASON_SIZE]);
long smd_agent_tls_write(struct smd_agent_tls *tls, const void *bytes, size_t size,
	int *wants_write, char reason[SMD_AGENT_REASON_SIZE]);
/* Whether both ends have shown that they know the key. */
int smd_agent_tls_is_secure(const struct smd_agent_tls *tls);

#endif
