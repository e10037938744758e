/* Starts keepers, tells how their commands have ended, and reaps them. */
#include "worker/agent/host/hosted.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/log.h"
#include "worker/agent/cleanup.h"
#include "worker/agent/descendants.h"
#include "worker/agent/host/input.h"
#include "worker/agent/host/pipes.h"
#include "worker/agent/host/start.h"
#include "worker/agent/keeper.h"

#define IDS_MAX (1u << 20)

/* How long a keeper may take to end a tree, and to remove a container after that. */
#define TREE_MAX_S      5
#define CONTAINER_MAX_S 60

struct smd_hosted {
	struct smd_hosts_own *own;
	uint32_t id;
	char *name;
	char *cleanup;    /* removes its container; "" if there is none */
	char *error_file; /* or NULL */
	pid_t pid;        /* of its keeper; 0: it has ended, */
	int status;       /* so */
	pid_t cleaner;    /* of what cleans up after a killed keeper; 0: none */
	int is_abandoned; /* its keeper was killed, and may have left something */
	char end_time[SMD_TIMESTAMP_SIZE];
	unsigned grace_s;
	unsigned ending_max_s;
	uint64_t overdue_ns; /* when it must have ended; 0: it was not asked to */
	struct smd_pipes pipes;
	struct smd_input input; /* of a session */
	int record_fd;
	int is_session;
	uint32_t of; /* a session's replica */
	int is_held; /* it has ended, and sessions of it have not */
};

/* ---- asking it to end ---- */

/* The keeper must live to end its tree, so SIGHUP tells it to do that at once. SIGCONT wakes a
 * keeper that a replica has stopped. */
static void hosted_signal(struct smd_hosted *hosted, int signo)
{
	unsigned grace_s = signo == SIGKILL ? 0 : hosted->grace_s;
	uint64_t overdue_ns =
		smd_clock_ns() + (hosted->ending_max_s + grace_s) * (uint64_t)SMD_SECOND_NS;

	if (hosted->pid == 0) {
		return;
	}
	if (hosted->overdue_ns == 0 || overdue_ns < hosted->overdue_ns) {
		hosted->overdue_ns = overdue_ns;
	}
	kill(hosted->pid, signo == SIGKILL ? SIGHUP : signo);
	kill(hosted->pid, SIGCONT);
}

/* ---- the end ---- */

static void hosted_free(struct smd_hosted *hosted)
{
	smd_pipes_close(&hosted->pipes);
	smd_input_close(&hosted->input);
	if (hosted->record_fd >= 0) {
		close(hosted->record_fd);
	}
	free(hosted->name);
	free(hosted->cleanup);
	free(hosted->error_file);
	free(hosted);
}

/* Without a record, because its keeper was killed, that one's exit status counts. */
static void exit_from_status(const struct smd_hosted *hosted, struct smd_exit *end)
{
	int code = WEXITSTATUS(hosted->status);

	*end = (struct smd_exit){.kind = SMD_EXIT_CODE, .value = code};
	if (WIFSIGNALED(hosted->status)) {
		*end = (struct smd_exit){
			.kind = SMD_EXIT_SIGNAL, .value = WTERMSIG(hosted->status)};
	} else if (code > SMD_EXIT_SIGNALLED && code < SMD_EXIT_SIGNALLED + NSIG) {
		*end = (struct smd_exit){
			.kind = SMD_EXIT_SIGNAL, .value = code - SMD_EXIT_SIGNALLED};
	}
	end->is_lost = WIFSIGNALED(hosted->status) || code == SMD_EXIT_NOT_EXECUTABLE;
	memcpy(end->end_time, hosted->end_time, sizeof(end->end_time));
}

static void read_record(const struct smd_hosted *hosted, struct smd_exit *end)
{
	char text[SMD_EXIT_RECORD_MAX];
	ssize_t count = read(hosted->record_fd, text, sizeof(text));
	json_t *record = count > 0 ? json_loadb(text, (size_t)count, 0, NULL) : NULL;

	if (!record || smd_exit_decode(record, end)) {
		exit_from_status(hosted, end);
	}
	json_decref(record);
}

/* A program may have put anything in its place. NULL: there is none that can be told. */
static char *read_error_file(const char *path)
{
	int fd = path ? open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC) : -1;
	struct stat status;
	char *text = NULL;

	if (fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0 &&
		status.st_size <= SMD_ERROR_FILE_MAX) {
		ssize_t count;

		text = calloc(1, (size_t)status.st_size + 1);
		count = text ? read(fd, text, (size_t)status.st_size) : -1;
		if (count <= 0) {
			free(text);
			text = NULL;
		}
	}
	if (fd >= 0) {
		close(fd);
		unlink(path);
	}
	return text;
}

static void send_end(struct smd_hosts_own *own, uint32_t id, const struct smd_exit *end,
	const char *error_text)
{
	json_t *body = smd_agent_ended_encode(id, end, error_text);

	/* A text that is not UTF-8 cannot be told. */
	body = body ? body : smd_agent_ended_encode(id, end, NULL);
	smd_agent_link_send_json(own->link, SMD_AGENT_ENDED, body);
}

/* Ends those that are left. How many there are. */
static size_t end_sessions(const struct smd_hosted *replica)
{
	const struct smd_hosts_own *own = replica->own;
	size_t count = 0;

	for (size_t id = 0; id < own->nids; id++) {
		struct smd_hosted *session = own->hosted[id];

		if (session && session->is_session && session->of == replica->id) {
			hosted_signal(session, SIGKILL);
			count++;
		}
	}
	return count;
}

static struct smd_hosted *replica_of(const struct smd_hosted *session)
{
	const struct smd_hosts_own *own = session->own;
	int is_there = session->is_session && session->of < own->nids;

	return is_there ? own->hosted[session->of] : NULL;
}

/* Nothing of it is left: the last words, then the end. */
static void finish(struct smd_hosted *hosted)
{
	struct smd_hosts_own *own = hosted->own;
	struct smd_hosted *replica = replica_of(hosted);
	struct smd_exit end = {.value = 0};
	char *error_text;

	hosted->is_held = !hosted->is_session && end_sessions(hosted) > 0;
	if (hosted->is_held) {
		return;
	}
	smd_pipes_drain(&hosted->pipes);
	read_record(hosted, &end);
	end.is_lost |= own->is_leaving;
	error_text = read_error_file(hosted->error_file);
	send_end(own, hosted->id, &end, error_text);
	free(error_text);
	own->hosted[hosted->id] = NULL;
	own->count--;
	hosted_free(hosted);
	if (replica && replica->is_held) {
		finish(replica);
	}
}

/* ---- starting ---- */

/* What runs in the new process. */
struct command {
	struct smd_keeper_options keeper;
	char *const *argv;
};

static int keep(void *arg)
{
	const struct command *command = arg;

	return smd_keeper_run(&command->keeper, command->argv);
}

/* A folder that the replica needs, and that this host must have. */
static int check_folder(const char *path, struct smd_exit *end)
{
	struct stat status;
	int ret = path && stat(path, &status) ? -errno : 0;

	if (ret) {
		snprintf(end->reason, sizeof(end->reason),
			"%s: must be there on every host that runs a replica: have it on "
			"a file system that the hosts share, or copy it there first",
			path);
	}
	return ret;
}

/* A session begins and ends within the life of its replica's process. */
static int check_replica(const struct smd_hosted *session, struct smd_exit *end)
{
	const struct smd_hosted *replica = replica_of(session);

	if (replica && !replica->is_session && replica->pid > 0) {
		return 0;
	}
	snprintf(end->reason, sizeof(end->reason), "it must run, and has ended");
	return -ESRCH;
}

static int check_folders(const struct smd_launch *launch, struct smd_exit *end)
{
	int ret = check_folder(launch->directory, end);

	for (size_t i = 0; i < launch->nmounts && !ret; i++) {
		ret = check_folder(launch->mounts[i].path, end);
	}
	return ret;
}

static enum smd_spawn_stdio stdio_of(const struct smd_launch *launch)
{
	return launch->terminal.rows ? SMD_SPAWN_TERMINAL
	       : launch->is_session  ? SMD_SPAWN_PIPES
				     : SMD_SPAWN_OUTPUT;
}

static int make_process(struct smd_hosted *hosted, const struct smd_launch *launch,
	const struct smd_start *start, struct smd_process *out)
{
	struct smd_hosts_own *own = hosted->own;
	struct command command = {.keeper = {.record_fd = SMD_RECORD_FD,
					  .grace_s = (int)launch->grace_s,
					  .cleanup = start->cleanup,
					  .has_terminal = launch->terminal.rows > 0},
		.argv = start->argv};
	const struct smd_spawn spawn = {.descriptors = &own->descriptors,
		.stdio = stdio_of(launch),
		.size = {.ws_row = (unsigned short)launch->terminal.rows,
			.ws_col = (unsigned short)launch->terminal.columns},
		.directory = launch->image ? NULL : launch->directory,
		.open_files = own->open_files,
		.envp = start->envp,
		.run = keep,
		.arg = &command};

	hosted->ending_max_s += launch->image ? CONTAINER_MAX_S : 0;
	return smd_spawn(&spawn, out);
}

static int hosted_start(struct smd_hosted *hosted, const struct smd_launch *launch,
	struct smd_error *error)
{
	struct smd_start start;
	struct smd_process process;
	int ret = smd_start_make(&start, hosted->own, launch, error);

	ret = ret ? ret : make_process(hosted, launch, &start, &process);
	hosted->cleanup = start.cleanup;
	start.cleanup = NULL;
	smd_start_clear(&start);
	if (ret) {
		return ret;
	}
	hosted->pid = process.pid;
	/* A replica that cannot be heard is still there; it is asked to end. */
	hosted->record_fd = process.record_fd;
	if (smd_pipes_open(&hosted->pipes, &process) |
		smd_input_open(&hosted->input, process.stdin_fd, launch->terminal.rows > 0)) {
		smd_hosted_signal(hosted->own, hosted->id, SIGTERM);
	}
	return 0;
}

/* A place for the id. */
static int take_id(struct smd_hosts_own *own, uint32_t id, struct smd_error *error)
{
	if (id >= IDS_MAX || (id < own->nids && own->hosted[id])) {
		return smd_error_set(
			error, EPROTO, "a START frame came with a number that cannot be used");
	}
	if (id >= own->nids) {
		size_t nids = id < 64 ? 64 : 2 * (size_t)id;
		struct smd_hosted **hosted = realloc(own->hosted, nids * sizeof(*hosted));

		if (!hosted) {
			return smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
		}
		memset(hosted + own->nids, 0, (nids - own->nids) * sizeof(*hosted));
		own->hosted = hosted;
		own->nids = nids;
	}
	return 0;
}

static struct smd_hosted *hosted_create(
	struct smd_hosts_own *own, const struct smd_agent_message *message)
{
	const struct smd_launch *launch = &message->launch;
	struct smd_hosted *hosted = calloc(1, sizeof(*hosted));

	if (!hosted) {
		return NULL;
	}
	hosted->own = own;
	hosted->id = message->id;
	hosted->pipes = (struct smd_pipes){
		.own = own, .id = message->id, .credit = message->credit};
	hosted->input = (struct smd_input){.own = own, .id = message->id};
	hosted->is_session = launch->is_session;
	hosted->of = launch->of;
	hosted->grace_s = launch->grace_s;
	hosted->ending_max_s = TREE_MAX_S;
	hosted->record_fd = -1;
	hosted->name = strdup(launch->name);
	hosted->error_file = launch->error_file ? strdup(launch->error_file) : NULL;
	if (!hosted->name || (launch->error_file && !hosted->error_file)) {
		hosted_free(hosted);
		return NULL;
	}
	return hosted;
}

int smd_hosted_start(struct smd_hosts_own *own, const struct smd_agent_message *message,
	struct smd_error *error)
{
	struct smd_exit end = {.kind = SMD_EXIT_ERRNO};
	struct smd_error why = {""};
	struct smd_hosted *hosted;
	int ret = take_id(own, message->id, error);

	if (ret) {
		return ret;
	}
	hosted = hosted_create(own, message);
	ret = !hosted               ? -ENOMEM
	      : hosted->is_session ? check_replica(hosted, &end)
				   : check_folders(&message->launch, &end);
	if (!ret) {
		own->hosted[message->id] = hosted;
		own->count++;
		ret = hosted_start(hosted, &message->launch, &why);
		if (ret) {
			own->hosted[message->id] = NULL;
			own->count--;
		}
	}
	if (ret) {
		if (hosted) {
			hosted_free(hosted);
		}
		end.value = -ret;
		if (why.text[0]) {
			snprintf(end.reason, sizeof(end.reason), "%.300s", why.text);
		}
		smd_timestamp(end.end_time);
		send_end(own, message->id, &end, NULL);
		return 0;
	}
	smd_agent_link_send_json(
		own->link, SMD_AGENT_STARTED, json_pack("{s:I}", "id", (json_int_t)message->id));
	return 0;
}

/* ---- what the runner says of it ---- */

static struct smd_hosted *hosted_of(const struct smd_hosts_own *own, uint32_t id)
{
	return id < own->nids ? own->hosted[id] : NULL;
}

void smd_hosted_signal(struct smd_hosts_own *own, uint32_t id, int signo)
{
	struct smd_hosted *hosted = hosted_of(own, id);

	if (hosted) {
		hosted_signal(hosted, signo);
	}
}

void smd_hosted_signal_all(struct smd_hosts_own *own, int signo)
{
	for (size_t id = 0; id < own->nids; id++) {
		if (own->hosted[id]) {
			hosted_signal(own->hosted[id], signo);
		}
	}
}

void smd_hosted_give_credit(struct smd_hosts_own *own, uint32_t id, uint32_t bytes)
{
	struct smd_hosted *hosted = hosted_of(own, id);

	if (hosted) {
		smd_pipes_give_credit(&hosted->pipes, bytes);
	}
}

int smd_hosted_feed(struct smd_hosts_own *own, const struct smd_agent_message *message,
	struct smd_error *error)
{
	struct smd_hosted *hosted = hosted_of(own, message->id);

	return hosted && hosted->is_session
		       ? smd_input_feed(&hosted->input, message->bytes, message->length, error)
		       : 0;
}

void smd_hosted_resize(struct smd_hosts_own *own, const struct smd_agent_message *message)
{
	struct smd_hosted *hosted = hosted_of(own, message->id);

	if (hosted && hosted->is_session) {
		smd_input_resize(&hosted->input, &message->terminal);
	}
}

void smd_hosted_set_full(struct smd_hosts_own *own, int is_full)
{
	if (own->is_full == is_full) {
		return;
	}
	own->is_full = is_full;
	for (size_t id = 0; id < own->nids; id++) {
		if (own->hosted[id]) {
			smd_pipes_watch(&own->hosted[id]->pipes);
		}
	}
}

/* ---- reaping ---- */

static struct smd_hosted *hosted_with(const struct smd_hosts_own *own, pid_t pid)
{
	for (size_t id = 0; id < own->nids; id++) {
		struct smd_hosted *hosted = own->hosted[id];

		if (hosted && (hosted->pid == pid || hosted->cleaner == pid)) {
			return hosted;
		}
	}
	return NULL;
}

/* A killed keeper's replica has ended when its orphans have, too. */
static void take_end(struct smd_hosted *hosted, pid_t pid, int status)
{
	if (pid == hosted->cleaner) {
		hosted->cleaner = 0;
		finish(hosted);
		return;
	}
	hosted->pid = 0;
	hosted->status = status;
	smd_timestamp(hosted->end_time);
	hosted->is_abandoned = WIFSIGNALED(status);
	if (!hosted->is_abandoned) {
		finish(hosted);
	}
}

static void reap(struct smd_hosts_own *own)
{
	pid_t pid;
	int status;

	own->children_ended = 0;
	while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
		struct smd_hosted *hosted = hosted_with(own, pid);

		if (WIFSTOPPED(status)) {
			kill(pid, SIGCONT);
			continue;
		}
		own->has_orphans |= !hosted || (WIFSIGNALED(status) && pid == hosted->pid);
		if (hosted) {
			take_end(hosted, pid, status);
		}
	}
}

static int is_own(pid_t pid, void *own)
{
	return hosted_with(own, pid) != NULL;
}

/* No orphans are left: what killed keepers could not remove is removed. */
static void clean_up(struct smd_hosts_own *own)
{
	for (size_t id = 0; id < own->nids; id++) {
		struct smd_hosted *hosted = own->hosted[id];

		if (!hosted || !hosted->is_abandoned) {
			continue;
		}
		hosted->is_abandoned = 0;
		hosted->cleaner = smd_clean_up_begin(hosted->cleanup);
		if (hosted->cleaner == 0) {
			finish(hosted);
		}
	}
}

static void kill_overdue(struct smd_hosts_own *own)
{
	uint64_t now = smd_clock_ns();

	for (size_t id = 0; id < own->nids; id++) {
		struct smd_hosted *hosted = own->hosted[id];

		if (hosted && hosted->pid && hosted->overdue_ns && now >= hosted->overdue_ns) {
			smd_log(SMD_LOG_WARN, "agent", "%s: its agent does not end; it is killed",
				hosted->name);
			kill(hosted->pid, SIGKILL);
			hosted->overdue_ns = 0;
		}
	}
}

/* One orphan that is killed may leave others: these are found when its own end has been taken. */
void smd_hosted_turn(struct smd_hosts_own *own)
{
	if (own->children_ended) {
		reap(own);
	}
	if (own->has_orphans) {
		own->has_orphans = smd_children_kill(is_own, own) > 0;
		if (!own->has_orphans) {
			clean_up(own);
		}
	}
	kill_overdue(own);
}

void smd_hosted_close(struct smd_hosts_own *own)
{
	smd_hosted_signal_all(own, SIGKILL);
	for (size_t id = 0; id < own->nids; id++) {
		if (own->hosted[id]) {
			hosted_free(own->hosted[id]);
		}
	}
	free(own->hosted);
	own->hosted = NULL;
	own->nids = own->count = 0;
}
