/*
 * A frame between the agent of a host and the runner of a job: the length of its body, its kind,
 * and the body (specs/design/agent-protocol.md).
 */
#ifndef SMD_AGENT_WIRE_FRAME_H
#define SMD_AGENT_WIRE_FRAME_H

#include <stddef.h>
#include <stdint.h>

#define SMD_AGENT_PROTOCOL   3
#define SMD_AGENT_FRAME_HEAD 5 /* bytes before the body */
#define SMD_AGENT_OUTPUT_HEAD 5 /* bytes before the output in an OUTPUT's body */
#define SMD_AGENT_OUTPUT_MAX (64u << 10)
#define SMD_AGENT_INPUT_HEAD 4 /* bytes before the input in an INPUT's body */
#define SMD_AGENT_INPUT_WINDOW (64u << 10) /* of input that may be on its way, without more credit */

#define SMD_AGENT_SMALL (64u << 10)
#define SMD_AGENT_LARGE (1u << 20)

/* Which end may send a kind. */
enum smd_agent_end { SMD_AGENT_RUNNER = 1, SMD_AGENT_HOST = 2 };

/* X(name, number, who sends it, bytes of its body at most) */
#define SMD_AGENT_FRAMES(X)                                                                        \
	X(HELLO, 1, SMD_AGENT_HOST, SMD_AGENT_LARGE)                                               \
	X(WELCOME, 2, SMD_AGENT_RUNNER, SMD_AGENT_SMALL)                                           \
	X(REFUSE, 3, SMD_AGENT_RUNNER, SMD_AGENT_SMALL)                                            \
	X(RESERVE, 4, SMD_AGENT_RUNNER, SMD_AGENT_SMALL)                                           \
	X(PORTS, 5, SMD_AGENT_HOST, SMD_AGENT_LARGE)                                               \
	X(FILE, 6, SMD_AGENT_RUNNER, SMD_AGENT_SMALL)                                              \
	X(START, 7, SMD_AGENT_RUNNER, 16u << 20)                                                   \
	X(STARTED, 8, SMD_AGENT_HOST, SMD_AGENT_SMALL)                                             \
	X(OUTPUT, 9, SMD_AGENT_HOST, SMD_AGENT_OUTPUT_HEAD + SMD_AGENT_OUTPUT_MAX)                 \
	X(CREDIT, 10, SMD_AGENT_RUNNER | SMD_AGENT_HOST, 8)                                        \
	X(SIGNAL, 11, SMD_AGENT_RUNNER, SMD_AGENT_SMALL)                                           \
	X(ENDED, 12, SMD_AGENT_HOST, 2u << 20)                                                     \
	X(PING, 13, SMD_AGENT_RUNNER | SMD_AGENT_HOST, 8)                                          \
	X(PONG, 14, SMD_AGENT_RUNNER | SMD_AGENT_HOST, 16)                                         \
	X(LEAVING, 15, SMD_AGENT_HOST, SMD_AGENT_SMALL)                                            \
	X(CLOSE, 16, SMD_AGENT_RUNNER, SMD_AGENT_SMALL)                                            \
	X(EXEC, 17, SMD_AGENT_RUNNER, SMD_AGENT_LARGE)                                             \
	X(INPUT, 18, SMD_AGENT_RUNNER, SMD_AGENT_INPUT_HEAD + SMD_AGENT_INPUT_WINDOW)              \
	X(RESIZE, 19, SMD_AGENT_RUNNER, SMD_AGENT_SMALL)

enum smd_agent_kind {
#define X(name, number, from, max) SMD_AGENT_##name = number,
	SMD_AGENT_FRAMES(X)
#undef X
};

struct smd_agent_head {
	enum smd_agent_kind kind;
	uint32_t length; /* of the body */
};

void smd_agent_head_encode(const struct smd_agent_head *head, uint8_t out[SMD_AGENT_FRAME_HEAD]);

/* Decodes the head of a frame that `from` has sent. 0; -EPROTO with what is wrong with it. */
int smd_agent_head_decode(const uint8_t bytes[SMD_AGENT_FRAME_HEAD], enum smd_agent_end from,
	struct smd_agent_head *out, const char **reason);

/* "HELLO". */
const char *smd_agent_kind_name(enum smd_agent_kind kind);

#endif
