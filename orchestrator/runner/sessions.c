/* Hands frames on between those who ask for sessions and the agents that run them. */
#include "orchestrator/runner/sessions.h"

#include <errno.h>
#include <event2/event.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "orchestrator/store/session_socket.h"
#include "reduction_server/base/bytes.h"
#include "reduction_server/base/clock.h"
#include "reduction_server/base/log.h"
#include "reduction_server/base/printable.h"

#define SAID_SIZE 512

/* A place for one. It is free when nobody is connected and no process is left. */
struct session {
	struct smd_sessions *sessions;
	struct smd_agent_link *link; /* to whoever asked; NULL: that one is gone */
	struct smd_run_host *host;   /* where its process is; NULL: there is none */
	uint32_t asked_id;           /* the number of its EXEC */
	char replica[SMD_REPLICA_NAME_MAX];
	uint64_t begun_ns;
	uid_t user; /* who asked */
	int is_over;                 /* the link's end has been told */
};

struct smd_sessions {
	struct smd_hosts *hosts;
	struct event *event;
	struct session list[SMD_SESSIONS_MAX];
};

/* Its number for its agent. */
static uint32_t id_of(const struct session *session)
{
	return (uint32_t)(session->sessions->hosts->capacity +
			  (size_t)(session - session->sessions->list));
}

/* ---- the job's log ---- */

__attribute__((format(printf, 2, 3))) static void say(
	const struct session *session, const char *format, ...)
{
	char text[SAID_SIZE];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	smd_printable(text);
	smd_stream_say(session->sessions->hosts->stream, SMD_STREAM_SERVICE, "INFO", text,
		strlen(text));
}

/* Of a command the program alone: its arguments may be anybody's secrets. */
static void say_begin(const struct session *session, const struct smd_agent_message *exec)
{
	const char *by = json_string_value(json_object_get(exec->root, SMD_AGENT_EXEC_BY));
	struct passwd *user = getpwuid(session->user);

	say(session, "%.64s: session %zu begins: %.128s%s, for %.32s%s%.128s", session->replica,
		(size_t)(session - session->sessions->list) + 1,
		exec->argv[0] ? exec->argv[0] : "a shell", exec->terminal.rows ? " on a terminal" : "",
		user ? user->pw_name : "an unknown user", by ? " by " : "", by ? by : "");
}

static void say_end(struct session *session, const struct smd_exit *end)
{
	double seconds = (double)(smd_clock_ns() - session->begun_ns) * 1e-9;
	const char *how = end->kind == SMD_EXIT_CODE     ? "exit code"
			  : end->kind == SMD_EXIT_SIGNAL ? "signal"
							 : "error";

	if (session->replica[0]) {
		say(session, "%.64s: session %zu has ended after %.1f s: %s %d", session->replica,
			(size_t)(session - session->sessions->list) + 1, seconds, how, end->value);
		session->replica[0] = '\0';
	}
}

/* ---- to whoever asked ---- */

static void send_end(struct session *session, const struct smd_exit *end)
{
	if (session->link) {
		smd_agent_link_send_json(session->link, SMD_AGENT_ENDED,
			smd_agent_ended_encode(session->asked_id, end, NULL));
	}
}

static void refuse(struct session *session, int err, const char *replica, const char *reason)
{
	struct smd_exit end = {.kind = SMD_EXIT_ERRNO, .value = err};

	snprintf(end.reason, sizeof(end.reason), "%.64s: %s", replica, reason);
	smd_timestamp(end.end_time);
	send_end(session, &end);
}

static void hand_on_output(struct session *session, const struct smd_agent_message *message)
{
	uint8_t head[SMD_AGENT_OUTPUT_HEAD];

	smd_put32(head, session->asked_id);
	head[4] = (uint8_t)message->stream;
	smd_agent_link_send(session->link, SMD_AGENT_OUTPUT, head, sizeof(head), message->bytes,
		message->length);
}

static void take_end(struct session *session, const struct smd_agent_message *message)
{
	struct smd_exit end = message->end;

	if (end.reason[0] && !session->host->is_local) {
		snprintf(end.reason, sizeof(end.reason), "host %s: %.300s", session->host->name,
			message->end.reason);
	}
	session->host = NULL;
	say_end(session, &end);
	send_end(session, &end);
}

static int hear_agent(struct smd_sessions *sessions, const struct smd_run_host *host,
	const struct smd_agent_message *message, struct smd_error *error)
{
	size_t place = message->id - sessions->hosts->capacity;
	struct session *session = place < SMD_SESSIONS_MAX ? &sessions->list[place] : NULL;

	if (!session || session->host != host) {
		return smd_error_set(
			error, EPROTO, "a frame came of a session that does not run there");
	}
	if (message->kind == SMD_AGENT_ENDED) {
		take_end(session, message);
	} else if (session->link && message->kind == SMD_AGENT_STARTED) {
		smd_agent_link_send_json(session->link, SMD_AGENT_STARTED,
			json_pack("{s:I}", "id", (json_int_t)session->asked_id));
	} else if (session->link && message->kind == SMD_AGENT_OUTPUT) {
		hand_on_output(session, message);
	} else if (session->link && message->kind == SMD_AGENT_CREDIT) {
		smd_agent_link_send_credit(session->link, session->asked_id, message->credit);
	}
	return 0;
}

static void lose_host(struct smd_sessions *sessions, const struct smd_run_host *host,
	const struct smd_exit *end)
{
	for (size_t i = 0; i < SMD_SESSIONS_MAX; i++) {
		if (sessions->list[i].host == host) {
			sessions->list[i].host = NULL;
			say_end(&sessions->list[i], end);
			send_end(&sessions->list[i], end);
		}
	}
}

/* ---- to agents ---- */

static void end_process(struct session *session)
{
	if (session->host && session->host->link) {
		smd_agent_link_send_json(session->host->link, SMD_AGENT_SIGNAL,
			json_pack("{s:I, s:i}", "id", (json_int_t)id_of(session), "signal",
				SIGKILL));
	}
}

/* By its name, or the replica's whose first process it is. */
static const struct smd_replica *find_replica(const struct smd_hosts *hosts, const char *name)
{
	char other[SMD_REPLICA_NAME_MAX];

	for (size_t i = 0; i < hosts->count; i++) {
		const struct smd_replica *replica = &hosts->replicas[i];

		smd_replica_name(other, replica->pool, replica->index);
		if (strcmp(replica->name, name) == 0 ||
			(replica->process == 0 && strcmp(other, name) == 0)) {
			return replica;
		}
	}
	return NULL;
}

static int begin(struct session *session, const struct smd_agent_message *message)
{
	struct smd_hosts *hosts = session->sessions->hosts;
	const struct smd_replica *replica = find_replica(hosts, message->name);
	struct smd_error error = {""};
	int ret;

	session->asked_id = message->id;
	if (!replica) {
		refuse(session, ENOENT, message->name, "the job has no replica of that name");
		return 0;
	}
	ret = smd_hosts_start_session(
		hosts, replica, id_of(session), message, &session->host, &error);
	if (ret) {
		refuse(session, -ret, replica->name, error.text);
	} else {
		snprintf(session->replica, sizeof(session->replica), "%s", replica->name);
		session->begun_ns = smd_clock_ns();
		say_begin(session, message);
	}
	return 0;
}

/* A process that has ended takes nothing more. */
static void hand_on(struct session *session, const struct smd_agent_message *message)
{
	if (!session->host || !session->host->link) {
		return;
	}
	if (message->kind == SMD_AGENT_INPUT) {
		smd_agent_link_send_input(
			session->host->link, id_of(session), message->bytes, message->length);
	} else if (message->kind == SMD_AGENT_CREDIT) {
		smd_agent_link_send_credit(session->host->link, id_of(session), message->credit);
	} else {
		smd_agent_link_send_resize(session->host->link, id_of(session),
			(int)message->terminal.rows, (int)message->terminal.columns);
	}
}

static int take_message(struct session *session, const struct smd_agent_message *message,
	struct smd_error *error)
{
	switch (message->kind) {
	case SMD_AGENT_EXEC:
		return session->host ? smd_error_set(error, EPROTO, "one EXEC is taken")
				     : begin(session, message);
	case SMD_AGENT_INPUT:
	case SMD_AGENT_CREDIT:
	case SMD_AGENT_RESIZE:
		hand_on(session, message);
		return 0;
	default:
		return smd_error_set(error, EPROTO, "such a frame is for agents");
	}
}

static int on_frame(void *owner, const struct smd_agent_head *head, const uint8_t *body,
	struct smd_error *error)
{
	struct smd_agent_message message;
	int ret = smd_agent_message_decode(&message, head->kind, body, head->length, error);

	ret = ret ? ret : take_message(owner, &message, error);
	smd_agent_message_clear(&message);
	return ret;
}

/* What it ran ends with it. */
static void on_over(void *owner, const char *reason)
{
	struct session *session = owner;

	(void)reason;
	session->is_over = 1;
	end_process(session);
}

static const struct smd_agent_link_callbacks callbacks = {.on_frame = on_frame, .on_over = on_over};

/* ---- who comes ---- */

static int is_of_this_user(int fd, uid_t *user)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size)) {
		return 0;
	}
	*user = peer.uid;
	return peer.uid == geteuid() || peer.uid == 0;
}

static struct session *free_place(struct smd_sessions *sessions)
{
	for (size_t i = 0; i < SMD_SESSIONS_MAX; i++) {
		if (!sessions->list[i].link && !sessions->list[i].host) {
			return &sessions->list[i];
		}
	}
	return NULL;
}

static void on_acceptable(evutil_socket_t fd, short what, void *arg)
{
	struct smd_sessions *sessions = arg;
	int accepted = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct session *session = free_place(sessions);
	struct smd_agent_link_options options = {.end = SMD_AGENT_HOST,
		.read_fd = accepted,
		.write_fd = accepted,
		.callbacks = &callbacks,
		.owner = session};
	uid_t user;

	(void)what;
	if (accepted < 0) {
		return;
	}
	if (!session || !is_of_this_user(accepted, &user)) {
		close(accepted);
		return;
	}
	*session = (struct session){.sessions = sessions, .user = user};
	(void)smd_agent_link_open(&session->link, sessions->hosts->base, &options, NULL);
}

/* ---- beginning and end ---- */

void smd_sessions_turn(struct smd_sessions *sessions)
{
	for (size_t i = 0; sessions && i < SMD_SESSIONS_MAX; i++) {
		struct session *session = &sessions->list[i];

		if (session->link && !session->is_over) {
			smd_agent_link_flush(session->link);
		}
		if (session->link && session->is_over) {
			smd_agent_link_close(session->link);
			session->link = NULL;
		}
	}
}

void smd_sessions_close(struct smd_hosts *hosts)
{
	struct smd_sessions *sessions = hosts->sessions;

	if (!sessions) {
		return;
	}
	smd_sessions_turn(sessions);
	for (size_t i = 0; i < SMD_SESSIONS_MAX; i++) {
		smd_agent_link_close(sessions->list[i].link);
	}
	close(event_get_fd(sessions->event));
	event_free(sessions->event);
	smd_jobdir_remove(hosts->launcher.dir, SMD_SESSION_SOCKET);
	free(sessions);
	hosts->sessions = NULL;
}

static int listen_on(struct smd_sessions *sessions, int fd)
{
	sessions->event = event_new(
		sessions->hosts->base, fd, EV_READ | EV_PERSIST, on_acceptable, sessions);
	if (!sessions->event || event_add(sessions->event, NULL)) {
		close(fd);
		if (sessions->event) {
			event_free(sessions->event);
		}
		return -ENOMEM;
	}
	return 0;
}

void smd_sessions_open(struct smd_hosts *hosts)
{
	static const struct smd_session_calls calls = {hear_agent, lose_host};
	struct smd_sessions *sessions = calloc(1, sizeof(*sessions));
	int ret = sessions ? smd_session_socket_listen(hosts->launcher.dir->fd) : -ENOMEM;

	if (ret >= 0) {
		sessions->hosts = hosts;
		ret = listen_on(sessions, ret);
	}
	if (ret) {
		smd_log(SMD_LOG_INFO, "runner", "%s: no sessions in replicas: %s",
			hosts->launcher.dir->path, strerror(-ret));
		free(sessions);
		sessions = NULL;
	}
	hosts->sessions = sessions;
	hosts->session_calls = &calls;
}
