/* Speaks to a job's runner as the runner does to an agent. */
#include "orchestrator/client/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/store/session_socket.h"
#include "worker/agent/wire/link.h"

#define ID 1u /* a connection has one session */

struct smd_session {
	struct smd_agent_link *link;
	const struct smd_session_callbacks *callbacks;
	void *owner;
	int is_over;
};

static void end(struct smd_session *session, int code, const char *reason)
{
	if (!session->is_over) {
		session->is_over = 1;
		session->callbacks->take_end(session->owner, code, reason);
	}
}

/* Of one that could not be executed its keeper has said which program. */
static void take_end(struct smd_session *session, const struct smd_exit *how)
{
	switch (how->kind) {
	case SMD_EXIT_CODE:
		end(session, how->value, "");
		return;
	case SMD_EXIT_SIGNAL:
		end(session, SMD_EXIT_SIGNALLED + how->value, how->reason);
		return;
	case SMD_EXIT_ERRNO:
		break;
	}
	if (how->reason[0]) {
		end(session, -1, how->reason);
	} else {
		end(session, how->value == ENOENT ? SMD_EXIT_NOT_FOUND : SMD_EXIT_NOT_EXECUTABLE, "");
	}
}

static int take_message(struct smd_session *session, const struct smd_agent_message *message)
{
	const struct smd_session_callbacks *callbacks = session->callbacks;

	switch (message->kind) {
	case SMD_AGENT_STARTED:
		if (callbacks->take_start) {
			callbacks->take_start(session->owner);
		}
		return 0;
	case SMD_AGENT_OUTPUT:
		return callbacks->take_output(
			session->owner, message->stream, message->bytes, message->length);
	case SMD_AGENT_CREDIT:
		callbacks->take_credit(session->owner, message->credit);
		return 0;
	case SMD_AGENT_ENDED:
		take_end(session, &message->end);
		return 0;
	default:
		return -EPROTO;
	}
}

static int on_frame(void *owner, const struct smd_agent_head *head, const uint8_t *body,
	struct smd_error *error)
{
	struct smd_agent_message message;
	int ret = smd_agent_message_decode(&message, head->kind, body, head->length, error);

	if (!ret) {
		ret = take_message(owner, &message);
		ret = ret ? smd_error_set(error, -ret, "the runner: %s", strerror(-ret)) : 0;
	}
	smd_agent_message_clear(&message);
	return ret;
}

static void on_over(void *owner, const char *reason)
{
	(void)reason;
	end(owner, -1,
		"the job's runner has ended the connection: the job is over, or has as many "
		"sessions as it takes");
}

static const struct smd_agent_link_callbacks link_callbacks = {
	.on_frame = on_frame, .on_over = on_over};

int smd_session_open(struct smd_session **out, struct event_base *base, const char *directory,
	const struct smd_session_callbacks *callbacks, void *owner, struct smd_error *error)
{
	struct smd_session *session = calloc(1, sizeof(*session));
	struct smd_agent_link_options options = {
		.end = SMD_AGENT_RUNNER, .callbacks = &link_callbacks, .owner = session};
	int fd = session ? smd_session_socket_connect(directory, error)
			 : smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
	int ret = fd < 0 ? fd : 0;

	if (!ret) {
		session->callbacks = callbacks;
		session->owner = owner;
		options.read_fd = options.write_fd = fd;
		ret = smd_agent_link_open(&session->link, base, &options, error);
	}
	if (ret) {
		free(session);
		session = NULL;
	}
	*out = session;
	return ret;
}

void smd_session_close(struct smd_session *session)
{
	if (session) {
		smd_agent_link_close(session->link);
		free(session);
	}
}

int smd_session_begin(struct smd_session *session, const char *replica, char *const *command,
	const struct smd_terminal *terminal, const char *by, uint32_t credit)
{
	json_t *body = smd_agent_exec_encode(ID, credit, replica, command, terminal);

	if (!body) {
		return -EINVAL;
	}
	if (by) {
		json_object_set_new(body, SMD_AGENT_EXEC_BY, json_string(by));
	}
	if (json_dumpb(body, NULL, 0, JSON_COMPACT) > SMD_AGENT_LARGE) {
		json_decref(body);
		return -E2BIG;
	}
	smd_agent_link_send_json(session->link, SMD_AGENT_EXEC, body);
	return 0;
}

void smd_session_give_credit(struct smd_session *session, uint32_t count)
{
	smd_agent_link_send_credit(session->link, ID, count);
}

void smd_session_write(struct smd_session *session, const void *bytes, size_t count)
{
	smd_agent_link_send_input(session->link, ID, bytes, count);
}

void smd_session_resize(struct smd_session *session, int rows, int columns)
{
	smd_agent_link_send_resize(session->link, ID, rows, columns);
}
