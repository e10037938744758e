/* Runs reduction servers and ranks as processes of this machine. */
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "reduction_server/wire/frame.h"
#include "worker/perf/perf.h"

struct processes {
	pid_t ranks[SMD_NRANKS_MAX];
	int nranks;
	pid_t servers[PERF_LOCAL_SERVERS_MAX];
	int nservers;
};

/* summand-reduction-server lies beside this program. */
static int find_server(char path[PATH_MAX], struct smd_error *error)
{
	char self[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (length < 0) {
		return smd_error_set(error, errno, "cannot find this program: %m");
	}
	self[length] = '\0';
	snprintf(path, PATH_MAX, "%s/summand-reduction-server", dirname(self));
	if (access(path, X_OK) != 0) {
		return smd_error_set(error, errno, "%s: must be there to be run: %m", path);
	}
	return 0;
}

static pid_t start_server(const char *path, int ready)
{
	pid_t parent = getpid();
	pid_t child = fork();
	char option[32];

	if (child != 0) {
		return child;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent) {
		_exit(1);
	}
	snprintf(option, sizeof(option), "--ready-fd=%d", ready);
	setenv("SUMMAND_LOG", "warn", 0);
	if (!freopen("/dev/null", "w", stdout)) {
		_exit(126);
	}
	execl(path, path, "--listen=127.0.0.1:0", option, (char *)NULL);
	fprintf(stderr, "summand-perf: cannot run %s: %s\n", path, strerror(errno));
	_exit(127);
}

/* Starts one server, waits until it is ready and adds its address to the list. */
static int add_server(struct processes *processes, const char *path, char *list, size_t size,
	struct smd_error *error)
{
	char line[160] = "";
	char address[128] = "";
	size_t used = strlen(list);
	int ends[2];
	FILE *notify;
	pid_t child;

	if (pipe(ends) != 0) {
		return smd_error_set(error, errno, "cannot make a pipe: %m");
	}
	child = start_server(path, ends[1]);
	close(ends[1]);
	notify = child > 0 ? fdopen(ends[0], "r") : NULL;
	if (!notify) {
		close(ends[0]);
		return smd_error_set(error, errno, "cannot start a reduction server: %m");
	}
	processes->servers[processes->nservers++] = child;
	if (!fgets(line, sizeof(line), notify) || sscanf(line, "ready %127s", address) != 1) {
		fclose(notify);
		return smd_error_set(error, ECHILD, "a reduction server ended before it was ready");
	}
	fclose(notify);
	snprintf(list + used, size - used, "%s%s", used ? "," : "", address);
	return 0;
}

static pid_t start_rank(const struct perf_settings *settings, int rank)
{
	struct perf_settings mine = *settings;
	struct smd_error error = {""};
	pid_t parent = getpid();
	pid_t child = fork();
	char name[32];
	int ret;

	if (child != 0) {
		return child;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent) {
		_exit(1);
	}
	mine.rank = rank;
	snprintf(name, sizeof(name), "rank-%d", rank);
	setenv("SUMMAND_REPLICA", name, 1);
	ret = perf_run_rank(&mine, &error);
	if (ret < 0) {
		fprintf(stderr, "summand-perf: rank %d: %s\n", rank, error.text);
	}
	fflush(NULL);
	_exit(ret ? 1 : 0);
}

static void kill_all(const pid_t *children, int n, int signal_number)
{
	for (int i = 0; i < n; i++) {
		if (children[i] > 0) {
			kill(children[i], signal_number);
		}
	}
}

/* Waits for every rank; when one fails the servers tell the others, which then end, too. */
static int wait_ranks(struct processes *processes)
{
	int left = processes->nranks;
	int failed = 0;

	while (left > 0) {
		int status;
		pid_t child = waitpid(-1, &status, 0);

		for (int i = 0; child > 0 && i < processes->nranks; i++) {
			if (processes->ranks[i] == child) {
				processes->ranks[i] = 0;
				left--;
				failed |= status != 0;
			}
		}
		for (int i = 0; child > 0 && i < processes->nservers; i++) {
			if (processes->servers[i] == child) {
				processes->servers[i] = 0;
				failed = 1;
			}
		}
		if (child < 0 && errno != EINTR) {
			break;
		}
	}
	return failed;
}

static void stop_servers(struct processes *processes)
{
	kill_all(processes->servers, processes->nservers, SIGTERM);
	for (int i = 0; i < processes->nservers; i++) {
		if (processes->servers[i] > 0) {
			waitpid(processes->servers[i], NULL, 0);
		}
	}
}

int perf_run_local(const struct perf_settings *settings, struct smd_error *error)
{
	struct perf_settings shared = *settings;
	struct processes processes = {.nranks = 0};
	char path[PATH_MAX];
	char group[32];
	char list[8192] = "";
	int failed = 1;
	int ret = find_server(path, error);

	for (int i = 0; ret == 0 && i < settings->local_servers; i++) {
		ret = add_server(&processes, path, list, sizeof(list), error);
	}
	if (ret) {
		goto stop_servers;
	}
	snprintf(group, sizeof(group), "perf-%d", (int)getpid());
	shared.group = settings->group ? settings->group : group;
	shared.servers = list;
	shared.nranks = settings->local;
	for (int r = 0; r < settings->local; r++) {
		pid_t child = start_rank(&shared, r);

		if (child < 0) {
			ret = smd_error_set(error, errno, "cannot start rank %d: %m", r);
			kill_all(processes.ranks, processes.nranks, SIGKILL);
			break;
		}
		processes.ranks[processes.nranks++] = child;
	}
	failed = wait_ranks(&processes);
stop_servers:
	stop_servers(&processes);
	return ret ? ret : failed;
}
