/*
 * A session in a replica, as whoever asks for one has it: a command beside the replica's own
 * process, by the job's runner on this machine (specs/design/runner.md, "Sessions"). It belongs to
 * one loop.
 */
#ifndef SMD_CLIENT_SESSION_H
#define SMD_CLIENT_SESSION_H

#include <stdint.h>

#include "reduction_server/base/error.h"
#include "worker/agent/wire/message.h"

struct event_base;
struct smd_session;

struct smd_session_callbacks {
	void (*take_start)(void *owner); /* the command runs; or NULL */
	/* So many bytes less of credit; -errno ends the session. */
	int (*take_output)(void *owner, enum smd_agent_stream stream, const uint8_t *bytes,
		size_t count);
	void (*take_credit)(void *owner, uint32_t count); /* for input, in bytes */
	/* The session is over, once. `code` is the command's, 128 and the signal's number, or -1: it
	 * was not run, or nobody knows how it ended. */
	void (*take_end)(void *owner, int code, const char *reason);
};

/* Connects to the runner of the job with that directory. 0, or -errno with a text. */
int smd_session_open(struct smd_session **out, struct event_base *base, const char *directory,
	const struct smd_session_callbacks *callbacks, void *owner, struct smd_error *error);
/* Or NULL. The command ends with it. May be called from a callback. */
void smd_session_close(struct smd_session *session);

/* Asks for the command (none: a shell) in that replica, with a terminal if that has rows, and for
 * whom, if not for oneself (NULL): the job's log has that; `credit` bytes of output may come, SMD_AGENT_INPUT_WINDOW of input may be sent. 0; -EINVAL: a word is no
 * text in UTF-8; -E2BIG: they are too long. */
int smd_session_begin(struct smd_session *session, const char *replica, char *const *command,
	const struct smd_terminal *terminal, const char *by, uint32_t credit);

/* So many bytes of output more may come. */
void smd_session_give_credit(struct smd_session *session, uint32_t count);
/* No more than there is credit for; none: its input has ended. */
void smd_session_write(struct smd_session *session, const void *bytes, size_t count);
void smd_session_resize(struct smd_session *session, int rows, int columns);

#endif
