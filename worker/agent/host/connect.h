/* How an agent gets the stream to its runner. */
#ifndef SMD_AGENT_HOST_CONNECT_H
#define SMD_AGENT_HOST_CONNECT_H

#include "worker/agent/wire/invitation.h"

/* Reads the invitation. Whoever starts an agent sends it at once; the way may have ended since, and
 * nobody told. 0, or -errno with a text. */
int smd_invitation_read(
	int fd, unsigned within_s, struct smd_invitation *out, struct smd_error *error);

/* Connects to the runner's addresses in turn. A non-blocking socket, or -errno with a text. */
int smd_runner_connect(const struct smd_invitation *invitation, struct smd_error *error);

/* Makes standard input and output the stream, for nobody else: what is printed goes to standard
 * error from then on. 0, or -errno with a text. */
int smd_runner_take_stream(int *read_fd, int *write_fd, struct smd_error *error);

#endif
