/* Runs the replicas of a job through the agents of its hosts. */
#include "orchestrator/runner/hosts.h"

#include <errno.h>
#include <event2/event.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "orchestrator/runner/allocation.h"
#include "orchestrator/runner/obituary.h"
#include "orchestrator/runner/policy.h"
#include "reduction_server/base/clock.h"
#include "reduction_server/base/log.h"

#define CREDIT     (128u << 10) /* of a replica's output, on its way */
#define OVERDRAFT  (4 << 20)    /* what comes when its process has ended */
#define START_ROOM (256u << 10) /* bytes on their way to a host, above which starts wait */
#define START_NS   50000000ull  /* of a turn, after which those that are left wait for the next */
#define TREE_MAX_S 15           /* for an agent to end a replica after its grace period */
#define CONTAINER_MAX_S 60

struct smd_replica_task {
	struct smd_hosts *hosts;
	struct smd_replica *replica;
	struct smd_run_host *host; /* NULL: it has no process */
	struct smd_output output;  /* in use while there is a process */
	int64_t credit;            /* that its agent has left */
	uint32_t owed;             /* that it gets back when there is room */
	unsigned ending_max_s;     /* what ending it may take after its grace period */
	uint64_t overdue_ns;       /* when it must have ended; 0: it was not asked to */
	int is_waiting;   /* it is to be started when the connection has room, and it is its turn */
	int is_cancelled; /* meanwhile it was asked to end */
	unsigned restarts;
};

static struct smd_replica_task *task_of(const struct smd_hosts *hosts, const struct smd_replica *replica)
{
	return &hosts->tasks[replica - hosts->replicas];
}

static uint32_t id_of(const struct smd_replica_task *task)
{
	return (uint32_t)(task - task->hosts->tasks);
}

static int report(const struct smd_replica_task *task, struct smd_event event)
{
	event.replica = task->replica;
	return task->hosts->take_event(task->hosts->arg, &event);
}

static int take_notice(void *arg, const struct smd_runner_notice *notice)
{
	static const enum smd_event_kind kinds[] = {
		[SMD_RUNNER_NOTICE_READY] = SMD_EVENT_READY,
		[SMD_RUNNER_NOTICE_STATUS] = SMD_EVENT_STATUS,
		[SMD_RUNNER_NOTICE_RESULT] = SMD_EVENT_RESULT,
		[SMD_RUNNER_NOTICE_FIGURE] = SMD_EVENT_FIGURE,
		[SMD_RUNNER_NOTICE_PROGRESS] = SMD_EVENT_PROGRESS,
	};

	return report(arg,
		(struct smd_event){
			.kind = kinds[notice->kind], .key = notice->key, .text = notice->text});
}

/* ---- starting ---- */

static int open_output(
	struct smd_replica_task *task, const struct smd_prepared_launch *launch, unsigned restarts)
{
	struct smd_hosts *hosts = task->hosts;
	const struct smd_output_sinks sinks = {.dir = hosts->launcher.dir,
		.log_name = launch->log,
		.append = restarts > 0,
		.log_limit = hosts->log_limit,
		.redaction = hosts->redaction,
		.stream = hosts->stream,
		.console = hosts->console,
		.replica = task->replica,
		.take_notice = take_notice,
		.arg = task};
	int ret = smd_output_open(&task->output, &sinks);

	if (ret) {
		smd_log(SMD_LOG_WARN, "runner", "%s/%s: cannot be opened: %s",
			hosts->launcher.dir->path, launch->log, strerror(-ret));
	}
	return ret;
}

static int send_start(struct smd_replica_task *task, struct smd_run_host *host,
	const struct smd_prepared_launch *launch, unsigned restarts)
{
	const struct smd_launch request =
		smd_launch_request(launch, &task->hosts->launcher, task->replica);
	json_t *body = smd_agent_start_encode(id_of(task), CREDIT, &request);
	int ret = body ? open_output(task, launch, restarts) : -EILSEQ;

	if (ret) {
		json_decref(body);
		return ret;
	}
	task->host = host;
	task->credit = CREDIT;
	task->owed = 0;
	task->overdue_ns = 0;
	task->ending_max_s = TREE_MAX_S + (request.image ? CONTAINER_MAX_S : 0);
	smd_agent_link_send_json(host->link, SMD_AGENT_START, body);
	return 0;
}

static struct smd_launch_host place_of(
	const struct smd_replica_task *task, const struct smd_run_host *host)
{
	const struct smd_hosts *hosts = task->hosts;

	return (struct smd_launch_host){.folder = host->is_local ? NULL : host->facts.folder,
		.gpus = &hosts->gpus[host->number],
		.first = hosts->first[host->number][task->replica->pool]};
}

static int prepare(struct smd_replica_task *task, struct smd_run_host *host,
	struct smd_prepared_launch *launch, unsigned restarts)
{
	struct smd_hosts *hosts = task->hosts;
	const struct smd_launch_host where = place_of(task, host);

	return smd_launch_prepare(launch, &hosts->launcher, task->replica, &where, restarts);
}

static struct smd_run_host *host_for(const struct smd_replica_task *task)
{
	const struct smd_replica *replica = task->replica;

	return &task->hosts->hosts[task->hosts->host_of[replica->pool][replica->index]];
}

int smd_hosts_can_start(const struct smd_hosts *hosts, const struct smd_replica *replica)
{
	const struct smd_run_host *host = host_for(task_of(hosts, replica));

	return hosts->ending_ns == 0 && host->state == SMD_HOST_READY && host->link &&
	       !host->leaving[0] && !host->cools_down;
}

void smd_hosts_blame(struct smd_hosts *hosts, const struct smd_replica *replica)
{
	struct smd_run_host *host =
		hosts->is_placed ? host_for(task_of(hosts, replica)) : NULL;

	if (host && !host->cools_down &&
		smd_cool_down_blame(&hosts->cool_down, host->name, replica->end.is_lost)) {
		host->cools_down = 1;
		hosts->has_lost = 1;
	}
}

int smd_hosts_may_lose_one(const struct smd_hosts *hosts)
{
	for (int i = 0; i < hosts->nhosts; i++) {
		if (smd_run_host_may_be_lost(&hosts->hosts[i])) {
			return 1;
		}
	}
	return 0;
}

void smd_hosts_praise(const struct smd_hosts *hosts)
{
	const char **names = calloc((size_t)hosts->nhosts + 1, sizeof(*names));
	const struct smd_job *job = hosts->launcher.job;
	size_t count = 0;

	for (int pool = 0; names && pool < SMD_JOB_POOLS_MAX; pool++) {
		for (int i = 0; i < job->pools[pool].replica_count && hosts->host_of[pool]; i++) {
			const char *name = hosts->hosts[hosts->host_of[pool][i]].name;

			/* Those of a pool are on one host after another. */
			if ((count == 0 || names[count - 1] != name) && count < (size_t)hosts->nhosts) {
				names[count++] = name;
			}
		}
	}
	smd_cool_down_praise(&hosts->cool_down, names, count);
	free(names);
}

static void start_now(struct smd_replica_task *task)
{
	struct smd_run_host *host = host_for(task);
	struct smd_prepared_launch launch = {0};
	struct smd_event event = {.kind = SMD_EVENT_LAUNCHED};
	struct smd_exit end = {.kind = SMD_EXIT_ERRNO};
	int ret = host->link ? prepare(task, host, &launch, task->restarts) : -EHOSTUNREACH;

	ret = ret ? ret : send_start(task, host, &launch, task->restarts);
	if (ret) {
		end.value = -ret;
		end.is_lost = ret == -EHOSTUNREACH;
		smd_timestamp(end.end_time);
		event.kind = SMD_EVENT_ENDED;
		event.end = &end;
	}
	event.text = launch.program;
	report(task, event);
	smd_launch_clear(&launch);
}

static void on_more(evutil_socket_t fd, short what, void *arg)
{
	(void)fd; /* the loop has not slept, and its turn follows */
	(void)what;
	(void)arg;
}

/* Agents take a runner for lost that says nothing for long, so one that starts thousands looks after
 * its connections in between. */
static int may_start(struct smd_hosts *hosts, const struct smd_run_host *host)
{
	static const struct timeval now = {0, 0};

	if (!host->link) {
		return 1; /* it ends at once */
	}
	if (smd_clock_ns() - hosts->turned_ns > START_NS) {
		if (!hosts->wants_turn) {
			hosts->wants_turn = !event_base_once(
				hosts->base, -1, EV_TIMEOUT, on_more, NULL, &now);
		}
		return 0;
	}
	if (smd_agent_link_unsent(host->link) > START_ROOM) {
		smd_agent_link_flush(host->link);
	}
	return smd_agent_link_unsent(host->link) <= START_ROOM;
}

/* The variables of a large job are many: they are made when they can be sent. */
void smd_hosts_start(struct smd_hosts *hosts, struct smd_replica *replica, unsigned restarts)
{
	struct smd_replica_task *task = task_of(hosts, replica);

	task->restarts = restarts;
	task->is_cancelled = 0;
	task->is_waiting = !may_start(hosts, host_for(task));
	if (task->is_waiting) {
		hosts->nwaiting++;
		report(task, (struct smd_event){.kind = SMD_EVENT_LAUNCHED});
	} else {
		start_now(task);
	}
}

/* It was never there. */
static void end_waiting(struct smd_replica_task *task)
{
	struct smd_exit end = {.kind = SMD_EXIT_SIGNAL, .value = SIGTERM};

	smd_timestamp(end.end_time);
	report(task, (struct smd_event){.kind = SMD_EVENT_ENDED, .end = &end});
}

static void start_waiting(struct smd_hosts *hosts)
{
	for (size_t i = 0; i < hosts->count && hosts->nwaiting > 0; i++) {
		struct smd_replica_task *task = &hosts->tasks[i];

		if (!task->is_waiting || (!task->is_cancelled && !may_start(hosts, host_for(task)))) {
			continue;
		}
		task->is_waiting = 0;
		hosts->nwaiting--;
		if (task->is_cancelled) {
			end_waiting(task);
		} else {
			start_now(task);
		}
	}
}

void smd_hosts_end(struct smd_hosts *hosts, const struct smd_replica *replica, int signo)
{
	struct smd_replica_task *task = task_of(hosts, replica);
	unsigned grace_s = signo == SIGKILL ? 0 : hosts->launcher.grace_s;
	uint64_t overdue_ns =
		smd_clock_ns() + (task->ending_max_s + grace_s) * (uint64_t)SMD_SECOND_NS;

	task->is_cancelled |= task->is_waiting;
	if (!task->host || !task->host->link) {
		return; /* it has ended, and its event says so */
	}
	if (task->overdue_ns == 0 || overdue_ns < task->overdue_ns) {
		task->overdue_ns = overdue_ns;
	}
	smd_agent_link_send_json(task->host->link, SMD_AGENT_SIGNAL,
		json_pack("{s:I, s:i}", "id", (json_int_t)id_of(task), "signal", signo));
}

void smd_hosts_send_file(struct smd_hosts *hosts, const char *name, const char *text)
{
	for (int i = 0; i < hosts->nhosts; i++) {
		struct smd_run_host *host = &hosts->hosts[i];

		if (host->link && !host->is_local && host->state == SMD_HOST_READY) {
			smd_agent_link_send_json(host->link, SMD_AGENT_FILE,
				json_pack("{s:s, s:s}", "name", name, "text", text));
		}
	}
}

/* ---- sessions ---- */

#define SHELL "exec \"$(command -v bash || command -v sh)\""

int smd_hosts_start_session(struct smd_hosts *hosts, const struct smd_replica *replica, uint32_t id,
	const struct smd_agent_message *exec, struct smd_run_host **host, struct smd_error *error)
{
	struct smd_replica_task *task = task_of(hosts, replica);
	struct smd_prepared_launch launch = {0};
	char *const shell[] = {(char *)"sh", (char *)"-c", (char *)SHELL, NULL};
	struct smd_launch_host where;
	json_t *body = NULL;
	int ret;

	if (!task->host || !task->host->link || !smd_replica_is_alive(replica)) {
		return smd_error_set(error, ESRCH, "it must run, and its state is %s",
			smd_replica_state_name(replica->state));
	}
	where = place_of(task, task->host);
	ret = smd_launch_prepare_session(
		&launch, &hosts->launcher, replica, &where, task->restarts, &exec->terminal);
	if (!ret) {
		struct smd_launch request = smd_launch_request(&launch, &hosts->launcher, replica);

		request.argv = exec->argv[0] ? exec->argv : shell;
		request.error_file = NULL;
		request.is_session = 1;
		request.of = id_of(task);
		request.terminal = exec->terminal;
		body = smd_agent_start_encode(id, exec->credit, &request);
		ret = body ? 0 : -ENOMEM;
	}
	if (!ret) {
		*host = task->host;
		smd_agent_link_send_json(task->host->link, SMD_AGENT_START, body);
	}
	smd_launch_clear(&launch);
	return ret ? smd_error_set(error, -ret, "%s", strerror(-ret)) : 0;
}

/* ---- what agents say ---- */

static void give_credit(struct smd_replica_task *task)
{
	if (!task->host || !task->host->link || task->owed == 0) {
		return;
	}
	smd_agent_link_send_credit(task->host->link, id_of(task), task->owed);
	task->credit += task->owed;
	task->owed = 0;
}

static int take_output(
	struct smd_replica_task *task, const struct smd_agent_message *message, struct smd_error *error)
{
	smd_output_feed(
		&task->output, message->stream, (const char *)message->bytes, message->length);
	if (message->stream == SMD_AGENT_NOTIFY) {
		return 0;
	}
	task->credit -= (int64_t)message->length;
	if (task->credit < -OVERDRAFT) {
		return smd_error_set(error, EPROTO, "more output came than there was credit for");
	}
	task->owed += (uint32_t)message->length;
	if (task->owed >= CREDIT / 2 && !task->hosts->is_paused) {
		give_credit(task);
	}
	return 0;
}

/* For people and for later; the job does not depend on it. */
static void write_records(const struct smd_replica_task *task, const struct smd_agent_message *message)
{
	const struct smd_jobdir *dir = task->hosts->launcher.dir;
	const char *name = task->replica->name;
	char path[SMD_REPLICA_NAME_MAX + 32];
	json_t *record = message->end.is_lost ? NULL : smd_exit_encode(&message->end);
	char *text = record ? json_dumps(record, 0) : NULL;

	snprintf(path, sizeof(path), "exits/%s.json", name);
	if (text && smd_jobdir_write(dir, path, text, strlen(text))) {
		smd_log(SMD_LOG_WARN, "runner", "%s/%s: cannot be written", dir->path, path);
	}
	free(text);
	json_decref(record);
	snprintf(path, sizeof(path), SMD_OBITUARY_ERROR_FILE, name);
	if (message->text) {
		(void)smd_jobdir_write(dir, path, message->text, strlen(message->text));
	}
	if (task->hosts->redaction->count > 0) {
		smd_redaction_rewrite(task->hosts->redaction, dir, path);
	}
}

static void end_task(struct smd_replica_task *task, const struct smd_exit *end)
{
	task->host = NULL;
	task->overdue_ns = 0;
	smd_output_close(&task->output);
	report(task, (struct smd_event){.kind = SMD_EVENT_ENDED, .end = end});
}

static int is_taken(const struct smd_replica_task *task, const struct smd_exit *end)
{
	uint64_t word_ns = task->hosts->ending_ns;

	return word_ns > 0 && task->overdue_ns == 0 &&
	       smd_policy_is_taken(end, smd_clock_ns(), word_ns);
}

/* An agent does not know what the engine calls its host, nor what the engine has said. */
static void explain_end(const struct smd_replica_task *task, struct smd_exit *end)
{
	const struct smd_run_host *host = task->host;
	char reason[SMD_EXIT_REASON_SIZE];

	end->is_lost |= is_taken(task, end);
	memcpy(reason, end->reason, sizeof(reason));
	if (end->is_lost && host->leaving[0]) {
		snprintf(end->reason, sizeof(end->reason), "host %s: %s", host->name, host->leaving);
	} else if (reason[0] && !host->is_local) {
		snprintf(end->reason, sizeof(end->reason), "host %s: %.300s", host->name, reason);
	}
}

static void take_ended(struct smd_replica_task *task, const struct smd_agent_message *message)
{
	struct smd_exit end = message->end;

	explain_end(task, &end);
	write_records(task, message);
	end_task(task, &end);
}

/* An agent may speak of replicas of its own host only. */
static int take_message(struct smd_hosts *hosts, struct smd_run_host *host,
	const struct smd_agent_message *message, struct smd_error *error)
{
	struct smd_replica_task *task = message->id < hosts->count ? &hosts->tasks[message->id] : NULL;

	if (message->id >= hosts->capacity && hosts->sessions) {
		return hosts->session_calls->take_message(hosts->sessions, host, message, error);
	}
	if (!task || task->host != host) {
		return smd_error_set(error, EPROTO,
			"a frame came of replica number %" PRIu32 ", which does not run there",
			message->id);
	}
	switch (message->kind) {
	case SMD_AGENT_STARTED:
		report(task, (struct smd_event){.kind = SMD_EVENT_STARTED});
		return 0;
	case SMD_AGENT_OUTPUT:
		return take_output(task, message, error);
	case SMD_AGENT_ENDED:
		take_ended(task, message);
		return 0;
	default:
		return 0;
	}
}

static void end_tasks_of(
	struct smd_hosts *hosts, const struct smd_run_host *host, const char *reason)
{
	struct smd_exit end = {.kind = SMD_EXIT_SIGNAL, .value = SIGKILL, .is_lost = 1};

	snprintf(end.reason, sizeof(end.reason), "%s", reason);
	smd_timestamp(end.end_time);
	if (hosts->sessions) {
		hosts->session_calls->lose_host(hosts->sessions, host, &end);
	}
	for (size_t i = 0; i < hosts->count; i++) {
		if (hosts->tasks[i].host == host) {
			end_task(&hosts->tasks[i], &end);
		}
	}
}

/* ---- beginning and end ---- */

int smd_hosts_open(struct smd_hosts *hosts)
{
	hosts->take_message = take_message;
	hosts->end_tasks_of = end_tasks_of;
	hosts->tasks = calloc(hosts->capacity, sizeof(*hosts->tasks));
	if (!hosts->tasks) {
		return -ENOMEM;
	}
	if (getrandom(hosts->key, sizeof(hosts->key), 0) != sizeof(hosts->key)) {
		free(hosts->tasks);
		return -EIO;
	}
	for (size_t i = 0; i < hosts->capacity; i++) {
		hosts->tasks[i].hosts = hosts;
		hosts->tasks[i].replica = &hosts->replicas[i];
	}
	return 0;
}

void smd_hosts_close(struct smd_hosts *hosts)
{
	smd_allocation_forget(hosts);
	smd_cool_down_clear(&hosts->cool_down);
	explicit_bzero(hosts->key, sizeof(hosts->key));
	free(hosts->request_name);
	free(hosts->tasks);
}

/* ---- each turn ---- */

/* Replicas wait while what they print is not read. */
static void pause_or_resume(struct smd_hosts *hosts)
{
	int is_full = smd_console_is_full(hosts->console);

	if (is_full == hosts->is_paused) {
		return;
	}
	hosts->is_paused = is_full;
	for (size_t i = 0; i < hosts->count && !is_full; i++) {
		give_credit(&hosts->tasks[i]);
	}
}

/* An agent that does not end what it was told to end is of no use any more. */
static void lose_overdue(struct smd_hosts *hosts)
{
	uint64_t now = smd_clock_ns();

	for (size_t i = 0; i < hosts->count; i++) {
		struct smd_replica_task *task = &hosts->tasks[i];

		if (task->host && task->overdue_ns && now >= task->overdue_ns) {
			task->overdue_ns = 0;
			smd_run_host_lose(task->host, "its agent does not end its replicas");
		}
	}
}

void smd_hosts_turn(struct smd_hosts *hosts)
{
	hosts->turned_ns = smd_clock_ns();
	hosts->wants_turn = 0;
	smd_allocation_turn(hosts);
	start_waiting(hosts);
	lose_overdue(hosts);
	pause_or_resume(hosts);
	for (int i = 0; i < hosts->nhosts; i++) {
		smd_run_host_turn(&hosts->hosts[i]);
		if (hosts->hosts[i].link && smd_agent_link_unsent(hosts->hosts[i].link) > 0) {
			smd_agent_link_flush(hosts->hosts[i].link);
		}
	}
}
