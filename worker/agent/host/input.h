/*
 * The input of a session: what the runner sends is written to its pipe or terminal as that takes it,
 * and credited then. At most SMD_AGENT_INPUT_WINDOW bytes wait here.
 */
#ifndef SMD_AGENT_HOST_INPUT_H
#define SMD_AGENT_HOST_INPUT_H

#include "worker/agent/host/hosted.h"

struct event;
struct evbuffer;

struct smd_input {
	/* The caller's, before smd_input_open(). */
	struct smd_hosts_own *own;
	uint32_t id; /* of the session, for the runner */

	/* Its own. */
	struct event *event;    /* NULL: it is not open; what comes is dropped */
	struct evbuffer *bytes; /* that wait */
	int is_terminal;
	int is_ending; /* the end follows what waits */
};

/* Takes over the descriptor; -1: there is none. 0 or -ENOMEM. */
int smd_input_open(struct smd_input *input, int fd, int is_terminal);
void smd_input_close(struct smd_input *input);

/* No bytes are the end: a pipe is closed, a terminal gets its character for that. 0; -EPROTO with a
 * text when more wait then than may, or -ENOMEM. */
int smd_input_feed(
	struct smd_input *input, const void *bytes, size_t count, struct smd_error *error);

void smd_input_resize(const struct smd_input *input, const struct smd_terminal *size);

#endif
