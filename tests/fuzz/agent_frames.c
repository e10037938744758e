/*
 * Any bytes at all on the connection of a host's agent, at either end: each frame is refused, or
 * means something within its bounds.
 */
#include <signal.h>
#include <string.h>

#include "tests/fuzz/input.h"
#include "worker/agent/wire/message.h"

static void check_terminal(const struct smd_terminal *terminal)
{
	must_hold(terminal->rows <= SMD_TERMINAL_SIZE_MAX &&
		  terminal->columns <= SMD_TERMINAL_SIZE_MAX);
	must_hold(!terminal->type || !strpbrk(terminal->type, " =\n"));
}

static void check_start(const struct smd_agent_message *message)
{
	const struct smd_launch *launch = &message->launch;

	must_hold(launch->name[0] != '\0' && !strchr(launch->name, '/'));
	must_hold(launch->image ? launch->runtime != NULL : launch->argv[0] != NULL);
	must_hold(launch->nmounts <= SMD_AGENT_MOUNTS_MAX);
	check_terminal(&launch->terminal);
	for (size_t i = 0; i < launch->environment->count; i++) {
		must_hold(!strchr(launch->environment->variables[i].name, '='));
	}
}

static void check(const struct smd_agent_message *message)
{
	switch (message->kind) {
	case SMD_AGENT_START:
		check_start(message);
		break;
	case SMD_AGENT_EXEC:
		must_hold(message->name && message->argv);
		check_terminal(&message->terminal);
		break;
	case SMD_AGENT_RESIZE:
		must_hold(message->terminal.rows && message->terminal.columns);
		check_terminal(&message->terminal);
		break;
	case SMD_AGENT_SIGNAL:
		must_hold(message->signo == SIGTERM || message->signo == SIGKILL);
		break;
	case SMD_AGENT_FILE:
		must_hold(!strchr(message->name, '/') && message->text != NULL);
		break;
	case SMD_AGENT_ENDED:
		must_hold(memchr(message->end.reason, '\0', sizeof(message->end.reason)) != NULL);
		must_hold(memchr(message->end.end_time, '\0', sizeof(message->end.end_time)) !=
			  NULL);
		break;
	case SMD_AGENT_OUTPUT:
		must_hold(message->length > 0 && message->stream < SMD_AGENT_STREAMS);
		break;
	case SMD_AGENT_HELLO:
		must_hold(message->version && message->name);
		must_hold(message->facts.ninterfaces <= SMD_FACTS_INTERFACES_MAX);
		break;
	default:
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	enum smd_agent_end from = length && bytes[0] & 1 ? SMD_AGENT_HOST : SMD_AGENT_RUNNER;
	size_t at = 1;

	while (length >= at + SMD_AGENT_FRAME_HEAD) {
		struct smd_agent_message message;
		struct smd_agent_head head;
		const char *reason;

		if (smd_agent_head_decode(bytes + at, from, &head, &reason)) {
			must_hold(reason[0] != '\0');
			break;
		}
		at += SMD_AGENT_FRAME_HEAD;
		/* Inputs are short: the last frame is what there is of it. */
		head.length = head.length > length - at ? (uint32_t)(length - at) : head.length;
		if (smd_agent_message_decode(&message, head.kind, bytes + at, head.length, NULL) ==
			0) {
			check(&message);
		}
		smd_agent_message_clear(&message);
		at += head.length;
	}
	return 0;
}
