/* Starts summand-reduction-server of this build, with any free port. */
#include "tests/nccl_proxy/servers.h"

#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define DRAIN_POLLS 1500 /* of 10 ms */

static void run_server(const char *address, int ready, pid_t parent)
{
	const char *build = getenv("SUMMAND_BUILD");
	const char *rdma = getenv("SUMMAND_TEST_RDMA"); /* the address of an RDMA device */
	char path[1024];
	char listen[128];
	const char *token_file = getenv("SUMMAND_TOKEN_FILE"); /* beyond loopback one is needed */
	char option[32];
	char token[1100];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!build || getppid() != parent) {
		_exit(126);
	}
	snprintf(path, sizeof(path), "%s/bin/summand-reduction-server", build);
	snprintf(listen, sizeof(listen), "--listen=%s%s",
		address ? address
		: rdma  ? rdma
			: "127.0.0.1",
		address ? "" : ":0");
	snprintf(option, sizeof(option), "--ready-fd=%d", ready);
	snprintf(token, sizeof(token), "--token-file=%s", token_file ? token_file : "");
	setenv("SUMMAND_LOG", "error", 0);
	if (!freopen("/dev/null", "w", stdout)) {
		_exit(126);
	}
	execl(path, path, listen, "--threads=1",
		rdma ? "--memory-limit=64M" : "--memory-limit=512M",
		rdma ? "--transport=auto" : "--transport=tcp", "--bandwidth=10gbps", option,
		token_file ? token : (char *)NULL, (char *)NULL);
	perror(path);
	_exit(127);
}

/* Its address is any free one, where none is given. */
static void start_one(struct servers *servers, int which, const char *address)
{
	pid_t parent = getpid();
	char line[128] = "";
	int ends[2];
	FILE *notify;
	pid_t child;

	CHECK(pipe(ends) == 0);
	fflush(NULL);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		close(ends[0]);
		run_server(address, ends[1], parent);
	}
	close(ends[1]);
	notify = fdopen(ends[0], "r");
	CHECK(notify);
	CHECK(fgets(line, sizeof(line), notify));
	CHECK(sscanf(line, "ready %63s", servers->addresses[which]) == 1);
	fclose(notify);
	servers->pids[which] = child;
}

void servers_start(struct servers *servers, int n)
{
	memset(servers, 0, sizeof(*servers));
	CHECK(n <= SERVERS_MAX);
	for (servers->n = 0; servers->n < n; servers->n++) {
		size_t used = strlen(servers->list);

		start_one(servers, servers->n, NULL);
		snprintf(servers->list + used, sizeof(servers->list) - used, "%s%s",
			used ? "," : "", servers->addresses[servers->n]);
	}
}

void servers_restart(struct servers *servers, int which)
{
	char address[sizeof(servers->addresses[which])];

	memcpy(address, servers->addresses[which], sizeof(address));
	start_one(servers, which, address);
}

void servers_signal(const struct servers *servers, int which, int signal_number)
{
	CHECK(kill(servers->pids[which], signal_number) == 0);
}

static void stop_one(struct servers *servers, int which)
{
	int status = 0;
	pid_t ended = 0;

	kill(servers->pids[which], SIGTERM);
	for (int i = 0; i < DRAIN_POLLS && ended == 0; i++) {
		ended = waitpid(servers->pids[which], &status, WNOHANG);
		usleep(ended ? 0 : 10000);
	}
	if (ended == 0) {
		kill(servers->pids[which], SIGKILL);
		waitpid(servers->pids[which], &status, 0);
		fleet_fail(
			__FILE__, __LINE__, "server %s does not drain", servers->addresses[which]);
	}
	servers->pids[which] = 0;
	if (WIFSIGNALED(status) ? WTERMSIG(status) != SIGKILL : status != 0) {
		fleet_fail(__FILE__, __LINE__, "server %s ended with status %#x",
			servers->addresses[which], (unsigned)status);
	}
}

void servers_stop(struct servers *servers)
{
	for (int i = 0; i < servers->n; i++) {
		stop_one(servers, i);
	}
}

bool servers_run(struct fleet fleet, int n)
{
	struct servers servers;
	bool good;

	servers_start(&servers, n);
	setenv("SUMMAND_REDUCTION_SERVERS", servers.list, 1);
	fleet.argument = fleet.argument ? fleet.argument : &servers;
	good = fleet_run(&fleet);
	servers_stop(&servers);
	return good;
}

void servers_closed_address(char *address, size_t size)
{
	struct sockaddr_in bound = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t length = sizeof(bound);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0); /* stays open: the port stays taken */
	CHECK(bind(fd, (struct sockaddr *)&bound, length) == 0);
	CHECK(getsockname(fd, (struct sockaddr *)&bound, &length) == 0);
	snprintf(address, size, "127.0.0.1:%d", ntohs(bound.sin_port));
}
