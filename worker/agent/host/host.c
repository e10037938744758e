/* Works for one runner, from the invitation to the end. */
#include "worker/agent/host/host.h"

#include <dirent.h>
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/log.h"
#include "worker/agent/cleanup.h"
#include "worker/agent/descendants.h"
#include "worker/agent/host/connect.h"
#include "worker/agent/host/hosted.h"
#include "worker/agent/host/inspect.h"
#include "worker/agent/host/port.h"
#include "worker/agent/program.h"

#define EXIT_USAGE 2
#define TICK_US    100000
#define FULL       (1u << 20) /* bytes that wait for the runner */
#define FOLDER     "summand-agent-"
#define FOLDER_YOUNG_S 60
#define INVITED_S      60

static const int watched_signals[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP};

#define WATCHED (sizeof(watched_signals) / sizeof(watched_signals[0]))

struct host {
	struct smd_invitation invitation;
	struct smd_host_facts facts;
	struct smd_hosts_own own;
	struct smd_ports ports;
	struct event_base *base;
	struct event *signals[WATCHED];
	struct event *tick;
	int is_welcome; /* the runner has taken this host */
	int is_over;    /* there is no runner, or it is done */
	int failed;
	int folder_fd; /* its lock; 0: there is no folder */
	uint64_t deadline_ns; /* of replicas, once the host leaves; 0: it does not */
};

/* ---- leaving ---- */

/* Ends the replicas; the second time at once. */
static void leave(struct host *host, unsigned grace_s)
{
	uint64_t deadline_ns = smd_clock_ns() + grace_s * (uint64_t)SMD_SECOND_NS;

	host->own.is_leaving = 1;
	if (host->deadline_ns == 0 || deadline_ns < host->deadline_ns) {
		host->deadline_ns = deadline_ns;
		smd_hosted_signal_all(&host->own, grace_s ? SIGTERM : SIGKILL);
	}
}

/* Replicas that end must not wait for somebody to read what they write. */
static void lose_runner(struct host *host, unsigned grace_s)
{
	if (host->is_over) {
		return;
	}
	host->is_over = 1;
	for (size_t id = 0; id < host->own.nids; id++) {
		smd_hosted_give_credit(&host->own, (uint32_t)id, UINT32_MAX);
	}
	smd_hosted_set_full(&host->own, 0);
	leave(host, grace_s);
}

static void on_over(void *owner, const char *reason)
{
	struct host *host = owner;

	if (!host->is_over) {
		host->failed = 1;
		if (!host->invitation.is_local) {
			fprintf(stderr, "summand-agent: runner: %s\n", reason);
		}
	}
	lose_runner(host, host->invitation.grace_s);
}

static void on_signal(evutil_socket_t signo, short what, void *arg)
{
	struct host *host = arg;
	char text[128];

	(void)what;
	if (signo == SIGCHLD) {
		host->own.children_ended = 1;
		return;
	}
	if (!host->own.is_leaving) {
		snprintf(text, sizeof(text), "its agent was told to end by signal %d (%s)",
			(int)signo, strsignal((int)signo));
		smd_agent_link_send_json(
			host->own.link, SMD_AGENT_LEAVING, json_pack("{s:s}", "text", text));
	}
	leave(host, signo == SIGHUP ? 0 : host->invitation.grace_s);
}

/* ---- frames ---- */

static int take_welcome(
	struct host *host, const struct smd_agent_message *message, struct smd_error *error)
{
	if (message->protocol != SMD_AGENT_PROTOCOL) {
		return smd_error_set(error, EPROTO,
			"it must speak protocol %d, as summand-agent %s does, got protocol %d, "
			"version %s",
			SMD_AGENT_PROTOCOL, SUMMAND_VERSION, message->protocol, message->version);
	}
	host->is_welcome = 1;
	return 0;
}

static int take_refusal(struct host *host, const struct smd_agent_message *message)
{
	fprintf(stderr, "summand-agent: runner: %s\n", message->text);
	host->failed = 1;
	lose_runner(host, 0);
	return 0;
}

static int take_reserve(struct host *host, const struct smd_agent_message *message)
{
	uint16_t *ports = calloc(message->nports + 1, sizeof(*ports));
	struct smd_error error = {""};
	int ret = ports ? 0 : -ENOMEM;

	for (unsigned i = 0; i < message->nports && !ret; i++) {
		ret = smd_ports_reserve(&host->ports, &ports[i], &error);
	}
	smd_agent_link_send_json(host->own.link, SMD_AGENT_PORTS,
		ret ? json_pack("{s:s}", "text", error.text[0] ? error.text : strerror(-ret))
		    : smd_agent_ports_encode(ports, message->nports));
	free(ports);
	return 0;
}

/* A file for replicas alone, in the agent's own folder. One that is there is replaced whole. */
static int take_file(
	struct host *host, const struct smd_agent_message *message, struct smd_error *error)
{
	size_t length = strlen(message->text);
	char path[SMD_FACTS_PATH_SIZE + SMD_FACTS_NAME_SIZE];
	char part[sizeof(path) + 8];
	int fd, ret = 0;

	if (host->invitation.is_local) {
		return smd_error_set(error, EPROTO, "a FILE frame came, and there is no folder");
	}
	snprintf(path, sizeof(path), "%s/%s", host->facts.folder, message->name);
	snprintf(part, sizeof(part), "%s.part", path);
	unlink(part);
	fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 || write(fd, message->text, length) != (ssize_t)length) {
		ret = -errno;
	}
	if (fd >= 0) {
		close(fd);
	}
	if (!ret && rename(part, path)) {
		ret = -errno;
	}
	return ret ? smd_error_set(error, -ret, "%s: cannot be written: %s", path, strerror(-ret)) : 0;
}

static int take_start(
	struct host *host, const struct smd_agent_message *message, struct smd_error *error)
{
	int ret = smd_hosted_start(&host->own, message, error);

	if (!ret && host->own.is_leaving) {
		smd_hosted_signal(&host->own, message->id, SIGKILL);
	}
	return ret;
}

static int take_message(
	struct host *host, const struct smd_agent_message *message, struct smd_error *error)
{
	if (!host->is_welcome && message->kind != SMD_AGENT_WELCOME &&
		message->kind != SMD_AGENT_REFUSE) {
		return smd_error_set(error, EPROTO, "the first frame must be WELCOME");
	}
	switch (message->kind) {
	case SMD_AGENT_WELCOME:
		return take_welcome(host, message, error);
	case SMD_AGENT_REFUSE:
		return take_refusal(host, message);
	case SMD_AGENT_RESERVE:
		return take_reserve(host, message);
	case SMD_AGENT_FILE:
		return take_file(host, message, error);
	case SMD_AGENT_START:
		return take_start(host, message, error);
	case SMD_AGENT_CREDIT:
		smd_hosted_give_credit(&host->own, message->id, message->credit);
		return 0;
	case SMD_AGENT_INPUT:
		return smd_hosted_feed(&host->own, message, error);
	case SMD_AGENT_RESIZE:
		smd_hosted_resize(&host->own, message);
		return 0;
	case SMD_AGENT_SIGNAL:
		smd_hosted_signal(&host->own, message->id, message->signo);
		return 0;
	case SMD_AGENT_CLOSE:
		lose_runner(host, 0);
		return 0;
	default:
		return 0; /* the link lets no others through */
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

static void on_room(void *owner)
{
	struct host *host = owner;

	smd_hosted_set_full(&host->own, 0);
}

static const struct smd_agent_link_callbacks callbacks = {
	.on_frame = on_frame, .on_over = on_over, .on_room = on_room};

/* ---- the loop ---- */

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct host *host = arg;

	(void)fd;
	(void)what;
	if (host->deadline_ns && smd_clock_ns() >= host->deadline_ns) {
		host->deadline_ns = UINT64_MAX;
		smd_hosted_signal_all(&host->own, SIGKILL);
	}
}

static int open_loop(struct host *host)
{
	const struct timeval period = {.tv_usec = TICK_US};

	for (size_t i = 0; i < WATCHED; i++) {
		host->signals[i] = evsignal_new(host->base, watched_signals[i], on_signal, host);
		if (!host->signals[i] || event_add(host->signals[i], NULL)) {
			return -ENOMEM;
		}
	}
	host->tick = event_new(host->base, -1, EV_PERSIST, on_tick, host);
	return !host->tick || event_add(host->tick, &period) ? -ENOMEM : 0;
}

static void close_loop(struct host *host)
{
	for (size_t i = 0; i < WATCHED; i++) {
		if (host->signals[i]) {
			event_free(host->signals[i]);
		}
	}
	if (host->tick) {
		event_free(host->tick);
	}
	if (host->base) {
		event_base_free(host->base);
	}
}

/* It goes when nothing of any replica is left, and the runner is gone or this host leaves it. */
static int is_done(const struct host *host)
{
	return (host->is_over || host->own.is_leaving) && host->own.count == 0 &&
	       !host->own.has_orphans;
}

static void work(struct host *host)
{
	smd_agent_link_send_json(host->own.link, SMD_AGENT_HELLO,
		smd_agent_hello_encode(host->invitation.host, &host->facts));
	while (!is_done(host)) {
		event_base_loop(host->base, EVLOOP_ONCE);
		smd_hosted_turn(&host->own);
		if (smd_agent_link_flush(host->own.link) > FULL) {
			smd_hosted_set_full(&host->own, 1);
		}
	}
	smd_agent_link_flush(host->own.link);
}

/* ---- beginning and end ---- */

static int open_link(struct host *host, struct smd_error *error)
{
	struct smd_agent_link_options options = {.end = SMD_AGENT_HOST,
		.silence_ms = host->invitation.silence_s * 1000,
		.callbacks = &callbacks,
		.owner = host};
	int ret;

	if (host->invitation.is_tcp) {
		int fd = smd_runner_connect(&host->invitation, error);

		if (fd < 0) {
			return fd;
		}
		options.read_fd = options.write_fd = fd;
		options.key = host->invitation.key;
	} else {
		ret = smd_runner_take_stream(&options.read_fd, &options.write_fd, error);
		if (ret) {
			return ret;
		}
	}
	ret = smd_agent_link_open(&host->own.link, host->base, &options, error);
	explicit_bzero(host->invitation.key, sizeof(host->invitation.key));
	return ret;
}

/* Replicas may have put folders into it. */
static void remove_folder(const char *place, const char *name)
{
	char command[2 * SMD_FACTS_PATH_SIZE];

	if (!strchr(place, '\'') && !strchr(name, '\'')) {
		snprintf(command, sizeof(command), "rm -rf -- '%s/%s'", place, name);
		smd_clean_up(command);
	}
}

/* Folders of agents that were killed: nobody holds their locks. One that is young may not be locked
 * yet. */
static void sweep(const char *place)
{
	DIR *folder = opendir(place);
	struct dirent *entry;

	while (folder && (entry = readdir(folder))) {
		struct stat status;
		int fd;

		if (strncmp(entry->d_name, FOLDER, strlen(FOLDER)) != 0) {
			continue;
		}
		fd = openat(dirfd(folder), entry->d_name,
			O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0 && fstat(fd, &status) == 0 && status.st_uid == geteuid() &&
			time(NULL) - status.st_mtime > FOLDER_YOUNG_S &&
			flock(fd, LOCK_EX | LOCK_NB) == 0) {
			remove_folder(place, entry->d_name);
		}
		if (fd >= 0) {
			close(fd);
		}
	}
	if (folder) {
		closedir(folder);
	}
}

/* In memory where there is such a folder of the user's: it holds the job's token. */
static int make_folder(struct host *host, struct smd_error *error)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	const char *places[] = {runtime && runtime[0] == '/' ? runtime : "/tmp", "/tmp"};

	if (host->invitation.is_local) {
		snprintf(host->facts.folder, sizeof(host->facts.folder), "/");
		return 0;
	}
	for (size_t i = 0; i < 2; i++) {
		snprintf(host->facts.folder, sizeof(host->facts.folder), "%s/" FOLDER "XXXXXX",
			places[i]);
		if (mkdtemp(host->facts.folder)) {
			host->folder_fd = open(
				host->facts.folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
			flock(host->folder_fd, LOCK_EX | LOCK_NB);
			sweep(places[i]);
			if (mkdirat(host->folder_fd, SMD_HOSTED_ERRORS, 0700) == 0) {
				return 0;
			}
			break;
		}
	}
	return smd_error_set(error, errno, "/tmp: must take a folder of this agent's: %s",
		strerror(errno));
}

/* Every replica takes four descriptors here, so the soft limit is raised to the hard one. */
static void raise_open_files(struct rlimit *before)
{
	struct rlimit raised;

	getrlimit(RLIMIT_NOFILE, before);
	raised = *before;
	raised.rlim_cur = raised.rlim_max;
	setrlimit(RLIMIT_NOFILE, &raised);
}

static int find_programs(struct smd_hosts_own *own, struct smd_error *error)
{
	char *agent;
	int ret = smd_program_find_agent(&agent, error);

	if (ret) {
		return ret;
	}
	own->program_dir = smd_program_folder(agent);
	free(agent);
	ret = own->program_dir ? smd_program_find_plugin(own->program_dir, &own->plugin_dir)
			       : -ENOMEM;
	return ret ? smd_error_set(error, -ret, "%s", strerror(-ret)) : 0;
}

static int add_number(struct host *host, const char *variable, struct smd_error *error)
{
	const char *text = variable ? getenv(variable) : "0";
	char *rest = NULL;
	long number = text ? strtol(text, &rest, 10) : -1;

	if (number < 0 || number > 1000000 || *rest || rest == text) {
		return smd_error_set(error, EINVAL,
			"--number-from=%s: the variable must be a number, got %s", variable,
			text ? text : "none");
	}
	host->invitation.host += (int)number;
	return 0;
}

static int host_open(
	struct host *host, const struct smd_host_options *options, struct smd_error *error)
{
	int ret = smd_invitation_read(STDIN_FILENO, INVITED_S, &host->invitation, error);

	if (!ret && host->invitation.protocol != SMD_AGENT_PROTOCOL &&
		host->invitation.protocol) {
		ret = smd_error_set(error, EPROTO,
			"runner: must speak protocol %d, as summand-agent %s does, got protocol %d, "
			"version %s",
			SMD_AGENT_PROTOCOL, SUMMAND_VERSION, host->invitation.protocol,
			host->invitation.version);
	}
	ret = ret ? ret : add_number(host, options->number_from, error);
	ret = ret ? ret : find_programs(&host->own, error);
	if (ret) {
		return ret;
	}
	ret = smd_descriptor_set_open(&host->own.descriptors);
	if (ret) {
		return smd_error_set(error, -ret, "/dev/null: %s", strerror(-ret));
	}
	raise_open_files(&host->own.open_files);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	prctl(PR_SET_PDEATHSIG, 0); /* the end of the stream tells, and leaves time */
	host->base = event_base_new();
	host->own.base = host->base;
	ret = host->base ? smd_host_inspect(&host->facts, error) : -ENOMEM;
	ret = ret ? ret : make_folder(host, error);
	host->own.folder = host->facts.folder;
	ret = ret ? ret : open_link(host, error);
	ret = ret ? ret : open_loop(host);
	return ret ? smd_error_set(error, -ret, "%s", strerror(-ret)) : 0;
}

static void host_close(struct host *host)
{
	smd_hosted_close(&host->own);
	smd_descendants_kill();
	smd_agent_link_close(host->own.link);
	if (!host->invitation.is_local && host->facts.folder[0]) {
		remove_folder(host->facts.folder, "");
	}
	if (host->folder_fd > 0) {
		close(host->folder_fd);
	}
	smd_ports_release(&host->ports);
	smd_host_facts_clear(&host->facts);
	close_loop(host);
	free(host->own.program_dir);
	free(host->own.plugin_dir);
}

int smd_host_run(const struct smd_host_options *options)
{
	struct host host = {.deadline_ns = 0};
	struct smd_error error = {""};
	sigset_t none;
	int ret;

	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	ret = host_open(&host, options, &error);
	if (ret) {
		fprintf(stderr, "summand-agent: %s\n", error.text);
	} else {
		work(&host);
	}
	host_close(&host);
	return ret ? EXIT_USAGE : host.failed;
}
