/*
 * What the bodies of frames mean. Each is read within its bounds: what another end sends is never
 * trusted.
 */
#ifndef SMD_AGENT_WIRE_MESSAGE_H
#define SMD_AGENT_WIRE_MESSAGE_H

#include "worker/agent/exit_record.h"
#include "worker/agent/wire/facts.h"
#include "worker/agent/wire/frame.h"
#include "worker/agent/wire/invitation.h"
#include "worker/agent/wire/launch.h"

#define SMD_AGENT_PORTS_MAX  65535
#define SMD_AGENT_MOUNTS_MAX 16
#define SMD_ERROR_FILE_MAX   (1 << 20)

enum smd_agent_stream { SMD_AGENT_STDOUT, SMD_AGENT_STDERR, SMD_AGENT_NOTIFY, SMD_AGENT_STREAMS };

/* A decoded frame. Which fields are set follows from its kind; strings point into it or into the
 * frame. */
struct smd_agent_message {
	enum smd_agent_kind kind;
	json_t *root;
	uint32_t id;      /* STARTED, SIGNAL, ENDED, START, OUTPUT, CREDIT, EXEC, INPUT, RESIZE */
	const char *text; /* REFUSE, LEAVING, FILE: its content; PORTS: why there are none; ENDED:
			     what is in the error file; or NULL */

	int protocol; /* HELLO, WELCOME */
	const char *version;
	int host;                     /* HELLO */
	struct smd_host_facts facts;  /* HELLO of this version */
	const char *name;             /* FILE; HELLO: of the host; EXEC: of the replica */
	unsigned nports;              /* RESERVE, PORTS */
	uint16_t *ports;              /* PORTS */
	int signo;                    /* SIGNAL: SIGTERM or SIGKILL */
	struct smd_exit end;          /* ENDED */
	enum smd_agent_stream stream; /* OUTPUT */
	const uint8_t *bytes;         /* OUTPUT, INPUT */
	size_t length;
	uint32_t credit; /* START, EXEC, CREDIT */
	struct smd_terminal terminal; /* EXEC, RESIZE: its size */

	struct smd_launch launch; /* START */
	char **argv; /* START, EXEC */
	struct smd_environment environment;
	struct smd_mount mounts[SMD_AGENT_MOUNTS_MAX];
};

/* Decodes a frame's body. 0; -EPROTO or -ENOMEM with a text. To be cleared in any case. */
int smd_agent_message_decode(struct smd_agent_message *out, enum smd_agent_kind kind,
	const uint8_t *body, size_t length, struct smd_error *error);
void smd_agent_message_clear(struct smd_agent_message *message);

/* A member of EXEC: for whom the one that asks does so, if not for itself; a text for the job's log. */
#define SMD_AGENT_EXEC_BY "by"

/* Bodies. NULL: out of memory, or, of START, a text that is not UTF-8. */
json_t *smd_agent_hello_encode(int host, const struct smd_host_facts *facts);
json_t *smd_agent_welcome_encode(void);
json_t *smd_agent_start_encode(uint32_t id, uint32_t credit, const struct smd_launch *launch);
json_t *smd_agent_exec_encode(uint32_t id, uint32_t credit, const char *replica,
	char *const *argv, const struct smd_terminal *terminal);
json_t *smd_agent_ended_encode(uint32_t id, const struct smd_exit *end, const char *error_text);
json_t *smd_agent_ports_encode(const uint16_t *ports, size_t count);

/* How the command ended, as an exit record has it. 0 or -EPROTO. */
json_t *smd_exit_encode(const struct smd_exit *end);
int smd_exit_decode(const json_t *record, struct smd_exit *out);

#endif
