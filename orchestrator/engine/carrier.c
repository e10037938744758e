/* Starts the commands that carry agents' streams, a bounded number at once, and ends them. */
#include "orchestrator/engine/carrier.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "orchestrator/contract/environment.h"
#include "orchestrator/engine/complaints.h"
#include "reduction_server/base/clock.h"
#include "worker/agent/descendants.h"

/* Commands whose agent has not said anything yet. An sshd that all of them pass through takes 10. */
#define AT_ONCE      8
#define TICK_US      20000 /* while the allocation is being released */
#define TERM_AFTER_S 2     /* of a release: a command that is still there gets SIGTERM, */
#define KILL_AFTER_S 5     /* SIGKILL */
#define AGENTS_MAX_S 65    /* for agents to end their trees, removal of containers included */
#define TEXT_MAX     1024
#define EXIT_ABSENT  127   /* a shell's status for a program that is not there */

struct carried_agent {
	struct carrier_engine *engine;
	const struct smd_carried_host *host;
	int number;
	pid_t pid;               /* 0: there is no process */
	int fd;                  /* the stream, until it is the runner's; -1 */
	struct event *readable;  /* of it: the agent says something; or NULL */
	int has_begun;
	int is_announced; /* the runner has it */
	int is_lost;
	struct smd_complaints complaints;
};

struct carrier_engine {
	struct smd_engine engine;
	struct smd_carried_host *hosts;
	size_t count;
	int is_local;
	const struct smd_allocation_request *request; /* NULL: there is no allocation */
	struct carried_agent *carried; /* one for each host that is not left out */
	size_t ncarried;
	struct event *child_ended;
	struct event *tick;
	uint64_t released_ns; /* 0: it is not being released */
};

static void report(struct carrier_engine *carrier, const struct smd_engine_event *event)
{
	carrier->engine.take_event(carrier->engine.arg, event);
}

static struct carrier_engine *carrier_from(struct smd_engine *engine)
{
	return (struct carrier_engine *)engine;
}

/* ---- the end of a command ---- */

static void close_stream(struct carried_agent *carried)
{
	if (carried->readable) {
		event_free(carried->readable);
		carried->readable = NULL;
	}
	if (carried->fd >= 0) {
		close(carried->fd);
		carried->fd = -1;
	}
}

static void lose(struct carried_agent *carried, const char *text)
{
	struct carrier_engine *carrier = carried->engine;

	if (carried->is_lost || carrier->released_ns) {
		return;
	}
	carried->is_lost = 1;
	report(carrier, &(struct smd_engine_event){
				.kind = SMD_ENGINE_LOST, .number = carried->number, .text = text});
}

static void tell_end(struct carried_agent *carried, int status)
{
	const struct smd_carried_host *host = carried->host;
	const char *words = smd_complaints_last(&carried->complaints);
	char text[TEXT_MAX];
	char how[64];

	if (WIFSIGNALED(status)) {
		snprintf(how, sizeof(how), "was killed by signal %d (%s)", WTERMSIG(status),
			sigdescr_np(WTERMSIG(status)));
	} else {
		snprintf(how, sizeof(how), "ended with status %d", WEXITSTATUS(status));
	}
	snprintf(text, sizeof(text), "host %s: %s %s%s%s%s", host->name,
		carried->engine->is_local ? "its agent" : host->argv[host->shown], how, *words ? ": " : "",
		words,
		WIFEXITED(status) && WEXITSTATUS(status) == EXIT_ABSENT && !carried->is_announced
			? "; summand-agent must be at that path on every host"
			: "");
	lose(carried, text);
}

static void start_more(struct carrier_engine *carrier);
static void free_allocation(struct carrier_engine *carrier);
static void go_on_releasing(struct carrier_engine *carrier);

static void take_status(struct carried_agent *carried, int status)
{
	if (WIFSTOPPED(status)) {
		kill(carried->pid, SIGCONT); /* by one of the job's processes, which may */
		return;
	}
	carried->pid = 0;
	close_stream(carried);
	tell_end(carried, status);
	smd_complaints_close(&carried->complaints);
}

static void reap(struct carrier_engine *carrier)
{
	for (size_t i = 0; i < carrier->ncarried; i++) {
		struct carried_agent *carried = &carrier->carried[i];
		int status;

		if (carried->pid &&
			waitpid(carried->pid, &status, WNOHANG | WUNTRACED) == carried->pid) {
			take_status(carried, status);
		}
	}
}

static void on_child_ended(evutil_socket_t signo, short what, void *arg)
{
	struct carrier_engine *carrier = arg;

	(void)signo;
	(void)what;
	if (carrier->released_ns) {
		go_on_releasing(carrier);
		return;
	}
	reap(carrier);
	start_more(carrier);
}

/* ---- the beginning ---- */

/* Its host as the runner is told of it. */
static struct smd_engine_host describe(const struct carried_agent *carried)
{
	return (struct smd_engine_host){.number = carried->number,
		.name = carried->host->name,
		.pool = -1,
		.slots = carried->host->slots,
		.is_local = carried->engine->is_local,
		.read_fd = carried->fd,
		.write_fd = carried->fd};
}

/* The runner gets the stream when the agent speaks. */
static void announce(struct carried_agent *carried)
{
	struct carrier_engine *carrier = carried->engine;
	const struct smd_engine_host announced = describe(carried);

	if (carried->readable) {
		event_free(carried->readable);
		carried->readable = NULL;
	}
	carried->fd = -1;
	carried->is_announced = 1;
	report(carrier,
		&(struct smd_engine_event){
			.kind = SMD_ENGINE_HOST, .number = carried->number, .host = &announced});
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct carried_agent *carried = arg;
	struct carrier_engine *carrier = carried->engine;
	char byte;

	(void)what;
	/* At its end there is nothing to announce: that of the command will say why. */
	if (recv(fd, &byte, 1, MSG_PEEK) == 1) {
		announce(carried);
		start_more(carrier);
	}
}

/* A session of its own: signals of a terminal are the runner's, and nothing asks for passwords.
 * (posix_spawn() would leave two signals ignored, which no program expects.) */
static void become_command(const struct smd_carried_host *host, int stream, int complaints, int why)
{
	sigset_t none;
	int err;

	setsid();
	for (int signo = 1; signo < NSIG; signo++) {
		signal(signo, SIG_DFL);
	}
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (dup2(stream, STDIN_FILENO) >= 0 && dup2(stream, STDOUT_FILENO) >= 0 &&
		(complaints < 0 || dup2(complaints, STDERR_FILENO) >= 0)) {
		execvp(host->argv[0], host->argv);
	}
	err = errno;
	(void)!write(why, &err, sizeof(err));
	_exit(EXIT_FAILURE);
}

/* The pipe closes when the command is executed, and carries errno when it is not. */
static int spawn(struct carried_agent *carried, int stream, int complaints)
{
	int why[2];
	int err = 0;

	if (pipe2(why, O_CLOEXEC)) {
		return -errno;
	}
	carried->pid = fork();
	if (carried->pid == 0) {
		become_command(
			carried->host, stream, complaints, why[1]);
	}
	err = carried->pid < 0 ? errno : 0;
	close(why[1]);
	if (carried->pid > 0 && read(why[0], &err, sizeof(err)) == (ssize_t)sizeof(err)) {
		waitpid(carried->pid, NULL, 0);
	}
	close(why[0]);
	if (err) {
		carried->pid = 0;
	}
	return -err;
}

static int invite(struct carried_agent *carried)
{
	struct carrier_engine *carrier = carried->engine;
	char *line = carrier->request->invite(carrier->request->invite_arg, carried->number,
		SMD_CARRIER_STREAM, carrier->is_local);
	size_t length = line ? strlen(line) : 0;
	int ret = line ? 0 : -ENOMEM;

	/* What cannot be written is no error: the command has ended, and says why. */
	(void)!write(carried->fd, line ? line : "", length);
	if (line) {
		explicit_bzero(line, length);
	}
	free(line);
	return ret;
}

static int begin(struct carried_agent *carried)
{
	struct carrier_engine *carrier = carried->engine;
	int pair[2];
	int complaints = -1;
	int ret = 0;

	carried->has_begun = 1;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) {
		return -errno;
	}
	carried->fd = pair[0];
	fcntl(pair[0], F_SETFL, O_NONBLOCK);
	if (!carrier->is_local) { /* whose agent has the runner's own standard error */
		ret = smd_complaints_open(&carried->complaints, carrier->engine.base, &complaints);
	}
	ret = ret ? ret : spawn(carried, pair[1], complaints);
	close(pair[1]);
	if (complaints >= 0) {
		close(complaints);
	}
	ret = ret ? ret : invite(carried);
	if (ret) {
		return ret;
	}
	carried->readable =
		event_new(carrier->engine.base, carried->fd, EV_READ, on_readable, carried);
	return !carried->readable || event_add(carried->readable, NULL) ? -ENOMEM : 0;
}

static void start_more(struct carrier_engine *carrier)
{
	size_t busy = 0;

	for (size_t i = 0; i < carrier->ncarried; i++) {
		busy += carrier->carried[i].pid && !carrier->carried[i].is_announced;
	}
	for (size_t i = 0; i < carrier->ncarried && busy < AT_ONCE; i++) {
		struct carried_agent *carried = &carrier->carried[i];
		char text[TEXT_MAX];
		int ret;

		if (carried->has_begun) {
			continue;
		}
		ret = begin(carried);
		busy++;
		if (ret) {
			snprintf(text, sizeof(text), "host %s: %s cannot be started: %s",
				carried->host->name, carried->host->argv[0], strerror(-ret));
			close_stream(carried);
			lose(carried, text);
		}
	}
}

static size_t count_slots(const struct smd_allocation_request *request)
{
	size_t slots = 0;

	for (int i = 0; i < SMD_JOB_POOLS_MAX; i++) {
		slots += (size_t)request->pools[i].replicas * (size_t)request->pools[i].slots;
	}
	return slots;
}

static int is_avoided(const struct smd_allocation_request *request, const char *name)
{
	return request->avoids && request->avoids(request->avoids_arg, name);
}

/* All hosts, but for those that are to be left out if the others have slots enough. */
static void choose_hosts(
	struct carrier_engine *carrier, const struct smd_allocation_request *request)
{
	size_t slots = 0;
	int leaves_out;

	for (size_t i = 0; i < carrier->count; i++) {
		if (!is_avoided(request, carrier->hosts[i].name)) {
			slots += (size_t)carrier->hosts[i].slots;
		}
	}
	leaves_out = slots >= count_slots(request);
	carrier->ncarried = 0;
	for (size_t i = 0; i < carrier->count; i++) {
		const struct smd_carried_host *host = &carrier->hosts[i];

		if (!leaves_out || !is_avoided(request, host->name)) {
			carrier->carried[carrier->ncarried] = (struct carried_agent){
				.engine = carrier, .host = host, .number = (int)carrier->ncarried, .fd = -1};
			carrier->ncarried++;
		}
	}
}

static int report_granted(struct carrier_engine *carrier)
{
	struct smd_engine_host *hosts = calloc(carrier->ncarried + 1, sizeof(*hosts));

	if (!hosts) {
		return -ENOMEM;
	}
	for (size_t i = 0; i < carrier->ncarried; i++) {
		hosts[i] = describe(&carrier->carried[i]);
	}
	report(carrier, &(struct smd_engine_event){.kind = SMD_ENGINE_GRANTED,
				.nhosts = (int)carrier->ncarried,
				.hosts = hosts,
				.leaves_out = carrier->ncarried < carrier->count});
	free(hosts);
	return 0;
}

int smd_carrier_allocate(struct smd_engine *engine, const struct smd_allocation_request *request,
	struct smd_error *error)
{
	struct carrier_engine *carrier = carrier_from(engine);

	carrier->carried = calloc(carrier->count, sizeof(*carrier->carried));
	carrier->child_ended = evsignal_new(engine->base, SIGCHLD, on_child_ended, carrier);
	if (!carrier->carried || !carrier->child_ended || event_add(carrier->child_ended, NULL)) {
		free(carrier->carried);
		carrier->carried = NULL;
		return smd_error_set(error, ENOMEM, "engine: %s", strerror(ENOMEM));
	}
	choose_hosts(carrier, request);
	carrier->request = request;
	carrier->released_ns = 0;
	if (carrier->is_local) {
		prctl(PR_SET_CHILD_SUBREAPER, 1);
	}
	if (report_granted(carrier)) {
		free_allocation(carrier);
		return smd_error_set(error, ENOMEM, "engine: %s", strerror(ENOMEM));
	}
	start_more(carrier);
	return 0;
}

const char *smd_carrier_explain(struct smd_engine *engine, int number, char *words, size_t size)
{
	struct carrier_engine *carrier = carrier_from(engine);
	struct carried_agent *carried = &carrier->carried[number];
	const struct smd_carried_host *host = carried->host;

	if (!carried->has_begun) {
		snprintf(words, size, "it is not tried before %d others have answered", AT_ONCE);
	} else {
		const char *said = smd_complaints_last(&carried->complaints);

		snprintf(words, size, "%s has been started, and has said %s", host->argv[host->shown],
			*said ? said : "nothing");
	}
	return host->name;
}

/* ---- giving back ---- */

/* What a killed agent has left on this machine has become this process's children. True when
 * nothing is left. */
static int end_orphans(const struct carrier_engine *carrier, uint64_t waited_ns)
{
	int is_patient = waited_ns < AGENTS_MAX_S * (uint64_t)SMD_SECOND_NS;
	pid_t pid;

	if (!carrier->is_local) {
		return 1;
	}
	do {
		pid = waitpid(-1, NULL, WNOHANG);
	} while (pid > 0);
	if (pid < 0) {
		return 1;
	}
	return smd_children_kill(is_patient ? smd_child_is_agent : NULL, NULL) == 0 && !is_patient;
}

static void free_allocation(struct carrier_engine *carrier)
{
	for (size_t i = 0; i < carrier->ncarried; i++) {
		close_stream(&carrier->carried[i]);
		smd_complaints_close(&carrier->carried[i].complaints);
	}
	event_free(carrier->child_ended);
	free(carrier->carried);
	carrier->carried = NULL;
	carrier->ncarried = 0;
	carrier->child_ended = NULL;
	carrier->request = NULL;
	if (carrier->tick) {
		event_free(carrier->tick);
		carrier->tick = NULL;
	}
}

static void signal_after(struct carrier_engine *carrier, uint64_t waited_ns)
{
	/* The local agent ends its trees itself; a container may take a minute. */
	uint64_t term_ns =
		(carrier->is_local ? AGENTS_MAX_S : TERM_AFTER_S) * (uint64_t)SMD_SECOND_NS;
	uint64_t kill_ns = term_ns + (KILL_AFTER_S - TERM_AFTER_S) * (uint64_t)SMD_SECOND_NS;

	for (size_t i = 0; i < carrier->ncarried; i++) {
		pid_t pid = carrier->carried[i].pid;

		if (pid && waited_ns >= term_ns) {
			/* A script's commands, and ssh's own, are in its process group. */
			kill(carrier->is_local ? pid : -pid,
				waited_ns >= kill_ns || carrier->carried[i].is_lost ? SIGKILL
										    : SIGTERM);
		}
	}
}

static int any_is_left(const struct carrier_engine *carrier)
{
	for (size_t i = 0; i < carrier->ncarried; i++) {
		if (carrier->carried[i].pid) {
			return 1;
		}
	}
	return 0;
}

static void go_on_releasing(struct carrier_engine *carrier)
{
	uint64_t waited_ns = smd_clock_ns() - carrier->released_ns;

	reap(carrier);
	if (any_is_left(carrier)) {
		signal_after(carrier, waited_ns);
		return;
	}
	if (end_orphans(carrier, waited_ns)) {
		free_allocation(carrier);
		report(carrier, &(struct smd_engine_event){.kind = SMD_ENGINE_RELEASED});
	}
}

static void on_release_tick(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	go_on_releasing(arg);
}

/* The runner has closed its streams; those that it has not got are closed here. So agents end, and
 * with them the commands. */
void smd_carrier_release(struct smd_engine *engine)
{
	static const struct timeval period = {.tv_usec = TICK_US};
	struct carrier_engine *carrier = carrier_from(engine);

	if (!carrier->carried || carrier->released_ns) {
		return;
	}
	carrier->released_ns = smd_clock_ns();
	for (size_t i = 0; i < carrier->ncarried; i++) {
		close_stream(&carrier->carried[i]);
	}
	carrier->tick = event_new(engine->base, -1, EV_PERSIST, on_release_tick, carrier);
	if (carrier->tick) {
		event_add(carrier->tick, &period);
	}
	go_on_releasing(carrier);
}

void smd_carrier_close(struct smd_engine *engine)
{
	struct carrier_engine *carrier = carrier_from(engine);

	smd_carried_hosts_free(carrier->hosts, carrier->count);
	free(carrier);
}

void smd_carried_hosts_free(struct smd_carried_host *hosts, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		free(hosts[i].name);
		smd_argv_free(hosts[i].argv);
	}
	free(hosts);
}

int smd_carrier_open(struct smd_engine **out, const struct smd_engine_ops *ops,
	struct smd_carried_host *hosts, size_t count, int is_local)
{
	struct carrier_engine *carrier = calloc(1, sizeof(*carrier));

	if (!carrier) {
		smd_carried_hosts_free(hosts, count);
		return -ENOMEM;
	}
	carrier->engine.ops = ops;
	carrier->hosts = hosts;
	carrier->count = count;
	carrier->is_local = is_local;
	*out = &carrier->engine;
	return 0;
}
