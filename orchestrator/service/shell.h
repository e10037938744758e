/*
 * One shell or command in a replica, as requests see it: its output is kept until it is known to
 * have come, and both directions are counted in bytes, so a request that is sent again changes
 * nothing. Inside the room.
 */
#ifndef SMD_SERVICE_SHELL_H
#define SMD_SERVICE_SHELL_H

#include <jansson.h>

#include "orchestrator/client/session.h"

#define SMD_SHELL_OUTPUT_MAX (64u << 10) /* bytes that are kept, of both streams */
#define SMD_SHELL_INPUT_MAX  SMD_AGENT_INPUT_WINDOW

struct evbuffer;

struct smd_shell_stream {
	struct evbuffer *kept;
	uint64_t at; /* the place of its first byte in all that there has been */
};

enum smd_shell_output { SMD_SHELL_OUT, SMD_SHELL_ERRORS, SMD_SHELL_STREAMS };

struct smd_shell {
	struct smd_session *session; /* NULL: it is over */
	int has_terminal;            /* which takes what goes to standard error, too */
	struct smd_shell_stream streams[SMD_SHELL_STREAMS];
	uint64_t input_at; /* how many bytes of input have been taken */
	uint32_t credit;   /* for more */
	int input_is_over;
	int has_ended;
	int exit_code; /* -1: none is known */
	char reason[SMD_EXIT_REASON_SIZE];
	void (*wake)(struct smd_shell *shell); /* there is more to tell */
};

struct smd_shell_request {
	const char *replica;
	char *const *command; /* none: a shell */
	struct smd_terminal terminal;
	const char *by; /* for whom, for the job's log */
};

/* Begins it by the runner of the job with that directory; the shell is zeroed, but for `wake`. 0, or
 * -errno with a text. It is to be closed in any case. */
int smd_shell_open(struct smd_shell *shell, struct event_base *base, const char *directory,
	const struct smd_shell_request *request, struct smd_error *error);
/* The command ends, if it has not. */
void smd_shell_close(struct smd_shell *shell);

/* What is kept, and how it has ended. */
json_t *smd_shell_show(const struct smd_shell *shell);
int smd_shell_has_news(const struct smd_shell *shell);

/* The place behind what is kept of a stream. */
uint64_t smd_shell_last(const struct smd_shell *shell, enum smd_shell_output stream);

/* Output up to there, from the stream's first byte that is kept to its last, has come. */
void smd_shell_drop(struct smd_shell *shell, enum smd_shell_output stream, uint64_t offset);

/* Takes input that begins at a place up to `input_at`; what was taken before is not taken twice. 0;
 * -EAGAIN: there is no credit for all of it, and nothing is taken. */
int smd_shell_write(struct smd_shell *shell, uint64_t at, const uint8_t *bytes, size_t count);
void smd_shell_end_input(struct smd_shell *shell);
void smd_shell_resize(struct smd_shell *shell, int rows, int columns);

#endif
