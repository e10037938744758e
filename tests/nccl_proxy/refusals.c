/* Scenarios in which the nodes cannot use CollNet: then none of them does. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "tests/nccl_proxy/library.h"
#include "tests/nccl_proxy/logbook.h"
#include "tests/nccl_proxy/scenarios.h"
#include "tests/nccl_proxy/servers.h"
#include "tests/nccl_proxy/stream.h"

#define LIST_VARIABLE "SUMMAND_REDUCTION_SERVERS"

static const struct proxy_shape shape = {.comm_id = 7, .slots = 4, .slot_bytes = 64 << 10};

/* ---- without servers, or where CollNet is not wanted ---- */

struct surroundings {
	const char *enable;
	const char *servers;
	const char *cluster_spec;
	const char *loops;
	const char *reason; /* in the log; NULL: it takes part */
};

static const struct surroundings surroundings[] = {
	{NULL, "127.0.0.1:2222", NULL, "1", "NCCL_COLLNET_ENABLE"},
	{"0", "127.0.0.1:2222", NULL, "1", "NCCL_COLLNET_ENABLE"},
	{"1", NULL, NULL, "1", LIST_VARIABLE},
	{"1", "", NULL, "1", LIST_VARIABLE},
	{"1", "no port", NULL, "1", "no port"},
	{"1", NULL, "{\"cluster\": {\"workerpool2\": []}}", "1", LIST_VARIABLE},
	{"1", "127.0.0.1:2222", NULL, "9", "SUMMAND_NCCL_LOOPS: must be 1 to 8, got \"9\""},
	{"1", NULL, "{\"cluster\": {\"workerpool2\": [\"127.0.0.1:2222\"]}}", "1", NULL},
	{"1", "127.0.0.1:2222", NULL, "1", NULL},
};

static void set(const char *variable, const char *value)
{
	if (value) {
		setenv(variable, value, 1);
	} else {
		unsetenv(variable);
	}
}

static void decline(struct fleet_node *node)
{
	const struct surroundings *these = node->argument;

	set("NCCL_COLLNET_ENABLE", these->enable);
	set(LIST_VARIABLE, these->servers);
	set("CLUSTER_SPEC", these->cluster_spec);
	set("SUMMAND_NCCL_LOOPS", these->loops);
	for (int v = 0; v < collnet_nversions; v++) {
		void *library = library_open();
		struct collnet_contexts contexts;
		struct collnet collnet;

		fleet_doing("surroundings %td, v%d", these - surroundings, collnet_versions[v]);
		logbook_clear();
		collnet_find(&collnet, library, collnet_versions[v]);
		if (these->reason) {
			CHECK(collnet_begin(&collnet, 1, &contexts) != NCCL_SUCCESS);
			/* once, since the library stays in memory */
			CHECK_EQUAL(logbook_has(NCCL_LOG_INFO, these->reason), v == 0);
		} else {
			CHECK_EQUAL(collnet_begin(&collnet, 1, &contexts), NCCL_SUCCESS);
			collnet_check_devices(&collnet);
			collnet_end(&collnet, &contexts);
		}
		library_close(library);
	}
}

bool decline_without_servers(void)
{
	bool good = true;

	for (size_t i = 0; i < sizeof(surroundings) / sizeof(surroundings[0]) && good; i++) {
		good = fleet_run(&(struct fleet){.nnodes = 1,
			.seconds = 20,
			.body = decline,
			.argument = (void *)&surroundings[i]});
	}
	return good;
}

/* ---- what the other scenarios share ---- */

/* Which node makes it. */
struct trouble {
	int node;             /* -1: all of them */
	const char *variable; /* has this value there; NULL: the list of servers has */
	const char *value;
	const char *reason; /* in every node's log */
};

/* Connects, and compares what came of it: NULL on one node is NULL on all. True: it is on. */
static bool connect_together(struct fleet_node *node, struct proxy *proxy, const char *handles)
{
	int result = proxy_connect(proxy, handles);
	char on = result == NCCL_SUCCESS ? 1 : 2; /* 0: the node has ended */
	char all[FLEET_NODES_MAX];

	CHECK((proxy->coll != NULL) == (on == 1));
	fleet_doing("comparison of results");
	fleet_gather(node, &on, 1, all);
	for (int r = 0; r < node->nnodes; r++) {
		CHECK(all[r] == 0 || all[r] == on);
	}
	CHECK(logbook_has(NCCL_LOG_INFO, on == 1 ? "): on, through" : "): off: "));
	return on == 1;
}

/* All is well again: the same process connects and sums. */
static void connect_again(struct fleet_node *node, struct collnet *collnet)
{
	struct proxy_op op = {.dtype = NCCL_FLOAT32, .count = 5000, .seed = 3};
	struct proxy proxy;

	logbook_clear();
	proxy_open(&proxy, collnet, node, &shape);
	CHECK(logbook_has(NCCL_LOG_INFO, ": on"));
	CHECK_EQUAL(proxy_fill_and_start(&proxy, &op), NCCL_SUCCESS);
	CHECK(op.request);
	proxy_wait(&proxy, &op);
	proxy_verify(&proxy, &op);
	proxy_deregister(&proxy, PROXY_SEND);
	proxy_close(&proxy);
}

static void fail_together(struct fleet_node *node)
{
	const struct trouble *trouble = node->argument;
	const char *variable = trouble->variable ? trouble->variable : LIST_VARIABLE;
	const char *common = getenv(variable);
	char *kept = strdup(common ? common : "");
	char handles[FLEET_NODES_MAX * NCCL_HANDLE_BYTES];
	char mine[NCCL_HANDLE_BYTES];
	void *library = library_open();
	struct collnet collnet;
	struct proxy proxy;

	if (trouble->node == node->rank || trouble->node < 0) {
		setenv(variable, trouble->value, 1);
	}
	collnet_find(&collnet, library, COLLNET_NEWEST);
	proxy_listen(&proxy, &collnet, node, &shape, mine);
	fleet_gather(node, mine, sizeof(mine), handles);
	CHECK(!connect_together(node, &proxy, handles));
	CHECK(logbook_has(NCCL_LOG_INFO, trouble->reason));
	proxy_close(&proxy);
	setenv(variable, kept, 1);
	connect_again(node, &collnet);
	library_close(library);
	free(kept);
}

/* ---- other servers ---- */

/* A server that takes connections, and then says nothing. */
static bool one_server_is_silent(void)
{
	struct trouble trouble = {.node = -1};
	struct servers silent;
	struct servers servers;
	bool good;

	servers_start(&servers, 1);
	servers_start(&silent, 1);
	setenv(LIST_VARIABLE, servers.list, 1);
	trouble.value = silent.list;
	trouble.reason = silent.list;
	servers_signal(&silent, 0, SIGSTOP);
	good = fleet_run(&(struct fleet){
		.nnodes = 3, .seconds = 25, .body = fail_together, .argument = &trouble});
	servers_signal(&silent, 0, SIGKILL);
	servers_stop(&silent);
	servers_stop(&servers);
	return good;
}

bool one_cannot_reach(void)
{
	char address[64];
	struct trouble trouble = {.value = address, .reason = address};
	static const int nodes[] = {-1, 0, 2};
	bool good = true;

	setenv("SUMMAND_CONNECT_TIMEOUT", "6", 1);
	servers_closed_address(address, sizeof(address));
	for (int i = 0; i < 3 && good; i++) {
		trouble.node = nodes[i];
		good = servers_run((struct fleet){.nnodes = 3,
					   .seconds = 25,
					   .body = fail_together,
					   .argument = &trouble},
			2);
	}
	return good && one_server_is_silent();
}

/* What is written otherwise, and means the same. */
static void say_the_same(struct fleet_node *node)
{
	void *library = library_open();
	struct collnet collnet;

	setenv("SUMMAND_NCCL_MIN_BYTES", node->rank ? "1048576" : "1M", 1);
	setenv("SUMMAND_NCCL_SERVER_LINKS", node->rank ? "4/1" : "400/100", 1);
	setenv("SUMMAND_WIRE", node->rank ? "float32" : "", 1);
	collnet_find(&collnet, library, COLLNET_NEWEST);
	connect_again(node, &collnet);
	library_close(library);
}

/* Where nothing is set servers say what they carry, and nodes agree on it. */
static void hear_what_servers_carry(struct fleet_node *node)
{
	void *library = library_open();
	struct collnet collnet;

	collnet_find(&collnet, library, COLLNET_NEWEST);
	connect_again(node, &collnet);
	CHECK(logbook_has(NCCL_LOG_INFO, "; servers carry 20000 Mbit/s"));
	library_close(library);
}

/*
 * The same servers in another order, or fewer of them: ranks would deal their chunks otherwise. Or
 * something else is set from which all-reduces are to come this way, or what float32 crosses as.
 */
bool one_has_other_servers(void)
{
	static const char *const settings[][3] = {
		{"SUMMAND_NCCL_MIN_BYTES", "2M", "SUMMAND_NCCL_MIN_BYTES=2097152"},
		{"SUMMAND_NCCL_SERVER_LINKS", "4/1", "SUMMAND_NCCL_SERVER_LINKS=4/1"},
		{"SUMMAND_WIRE", "bf16", "got pipelined SUMMAND_WIRE=bfloat16"}};
	struct servers servers;
	struct trouble trouble = {.node = 1};
	char reversed[160];
	bool good = true;

	servers_start(&servers, 2);
	setenv(LIST_VARIABLE, servers.list, 1);
	snprintf(reversed, sizeof(reversed), "%s,%s", servers.addresses[1], servers.addresses[0]);
	for (int i = 0; i < 2 && good; i++) {
		trouble.value = i ? reversed : servers.addresses[0];
		trouble.reason = i ? "node-1" : "pipelined "; /* which nodes compare, too */
		good = fleet_run(&(struct fleet){
			.nnodes = 3, .seconds = 25, .body = fail_together, .argument = &trouble});
	}
	for (int i = 0; i < 3 && good; i++) {
		trouble = (struct trouble){.node = 1,
			.variable = settings[i][0],
			.value = settings[i][1],
			.reason = settings[i][2]};
		good = fleet_run(&(struct fleet){
			.nnodes = 3, .seconds = 25, .body = fail_together, .argument = &trouble});
	}
	good = good && fleet_run(&(struct fleet){.nnodes = 3, .seconds = 25, .body = say_the_same});
	good = good && fleet_run(&(struct fleet){
			       .nnodes = 3, .seconds = 25, .body = hear_what_servers_carry});
	servers_stop(&servers);
	return good;
}

/* ---- a node that is not there ---- */

static void close_listen(struct proxy *proxy)
{
	CHECK_EQUAL(COLLNET_CALL(proxy->collnet, closeListen, proxy->listen_comm), NCCL_SUCCESS);
	proxy->listen_comm = NULL;
}

/* The one connects when the others have given up: it is refused, too. Or it never does. */
static void miss_one(struct fleet_node *node)
{
	const struct trouble *trouble = node->argument;
	char handles[FLEET_NODES_MAX * NCCL_HANDLE_BYTES];
	char mine[NCCL_HANDLE_BYTES];
	bool late = trouble->value != NULL;
	void *library = library_open();
	struct collnet collnet;
	struct proxy proxy;

	collnet_find(&collnet, library, COLLNET_NEWEST);
	proxy_listen(&proxy, &collnet, node, &shape, mine);
	fleet_gather(node, mine, sizeof(mine), handles);
	if (node->rank != trouble->node) {
		CHECK(proxy_connect(&proxy, handles) != NCCL_SUCCESS);
		CHECK(logbook_has(NCCL_LOG_INFO, trouble->reason));
	}
	fleet_doing("waiting for the others to give up");
	fleet_barrier(node);
	if (node->rank == trouble->node && late) {
		CHECK(proxy_connect(&proxy, handles) != NCCL_SUCCESS);
		CHECK(logbook_has(NCCL_LOG_INFO, ": off"));
	} else if (node->rank == trouble->node) {
		close_listen(&proxy);
	}
	proxy_close(&proxy);
	fleet_barrier(node);
	connect_again(node, &collnet);
	library_close(library);
}

bool one_does_not_come(void)
{
	static const struct trouble troubles[] = {{.node = 2, .reason = "node 2"},
		{.node = 0, .value = "late", .reason = "node 0"},
		{.node = 1, .value = "late", .reason = "node 1"}};
	bool good = true;

	setenv("SUMMAND_CONNECT_TIMEOUT", "4", 1);
	for (int i = 0; i < 3 && good; i++) {
		good = servers_run((struct fleet){.nnodes = 3,
					   .seconds = 20,
					   .body = miss_one,
					   .argument = &troubles[i]},
			1);
	}
	return good;
}

/* ---- a node that dies in connect ---- */

struct death {
	int node;
	int late;  /* this one connects when it is dead; -1: none */
	int delay; /* ms, from its connect on */
};

static void on_alarm(int signal_number)
{
	(void)signal_number;
	raise(SIGKILL);
}

static void die_in(int ms)
{
	const struct itimerval timer = {.it_value = {ms / 1000, ms % 1000 * 1000 + 1}};

	signal(SIGALRM, on_alarm);
	setitimer(ITIMER_REAL, &timer, NULL);
}

static void await_death(pid_t pid)
{
	fleet_doing("waiting for a death");
	while (kill(pid, 0) == 0 || errno != ESRCH) {
		usleep(10000);
	}
}

static void lose_one(struct fleet_node *node)
{
	const struct death *death = node->argument;
	char handles[FLEET_NODES_MAX * NCCL_HANDLE_BYTES];
	char mine[NCCL_HANDLE_BYTES];
	pid_t pids[FLEET_NODES_MAX];
	pid_t pid = getpid();
	void *library = library_open();
	struct collnet collnet;
	struct proxy proxy;
	bool on;

	collnet_find(&collnet, library, COLLNET_NEWEST);
	proxy_listen(&proxy, &collnet, node, &shape, mine);
	fleet_gather(node, mine, sizeof(mine), handles);
	fleet_gather(node, &pid, sizeof(pid), pids);
	if (node->rank == death->node) {
		die_in(death->delay);
	} else if (node->rank == death->late) {
		await_death(pids[death->node]);
	}
	on = connect_together(node, &proxy, handles);
	if (node->rank == death->node) {
		pause(); /* so long connect has not taken */
	}
	CHECK(!on || death->late < 0);
	if (on) {
		proxy_register(&proxy);
		proxy_deregister(&proxy, PROXY_SEND);
	}
	proxy_close(&proxy);
	library_close(library);
}

/* Before the last node has come; and at any time: then it is on for all that are left, or for none.
 */
bool one_dies_in_connect(void)
{
	static const struct death deaths[] = {{1, 2, 300}, {0, 2, 300}, {1, -1, 0}, {2, -1, 1},
		{1, -1, 2}, {2, -1, 3}, {1, -1, 5}, {2, -1, 8}, {1, -1, 13}};
	bool good = true;

	setenv("SUMMAND_CONNECT_TIMEOUT", "2", 1);
	for (size_t i = 0; i < sizeof(deaths) / sizeof(deaths[0]) && good; i++) {
		good = servers_run((struct fleet){.nnodes = 3,
					   .seconds = 20,
					   .killed = 1u << deaths[i].node,
					   .body = lose_one,
					   .argument = &deaths[i]},
			1);
	}
	return good;
}

/* ---- a server that dies in connect ---- */

struct ending {
	struct servers servers;
	int delay; /* ms, from node 0's connect on */
};

static void *end_server(void *arg)
{
	const struct ending *ending = arg;

	usleep((unsigned)ending->delay * 1000 + 1);
	servers_signal(&ending->servers, 0, SIGKILL);
	return NULL;
}

static void lose_server(struct fleet_node *node)
{
	struct ending ending = *(const struct ending *)node->argument;
	char handles[FLEET_NODES_MAX * NCCL_HANDLE_BYTES];
	char mine[NCCL_HANDLE_BYTES];
	void *library = library_open();
	struct collnet collnet;
	struct proxy proxy;
	pthread_t thread;

	collnet_find(&collnet, library, COLLNET_NEWEST);
	proxy_listen(&proxy, &collnet, node, &shape, mine);
	fleet_gather(node, mine, sizeof(mine), handles);
	if (node->rank == 0) {
		CHECK(pthread_create(&thread, NULL, end_server, &ending) == 0);
	}
	if (connect_together(node, &proxy, handles)) {
		proxy_register(&proxy);
		proxy_deregister(&proxy, PROXY_SEND);
	}
	if (node->rank == 0) {
		pthread_join(thread, NULL);
	}
	proxy_close(&proxy);
	library_close(library);
}

/* It is on for all or for none, at whatever time that is. */
bool server_dies_in_connect(void)
{
	static struct ending ending;
	bool good = true;

	setenv("SUMMAND_CONNECT_TIMEOUT", "2", 1);
	for (ending.delay = 0; ending.delay < 12 && good; ending.delay += 2) {
		servers_start(&ending.servers, 2);
		setenv(LIST_VARIABLE, ending.servers.list, 1);
		good = fleet_run(&(struct fleet){
			.nnodes = 3, .seconds = 20, .body = lose_server, .argument = &ending});
		servers_stop(&ending.servers);
	}
	return good;
}

/* ---- several communicators that cannot reach the servers ---- */

enum { COMMUNICATORS = 16 };

struct attempt {
	struct proxy proxy;
	char handles[FLEET_NODES_MAX * NCCL_HANDLE_BYTES];
	pthread_t thread;
};

static void *attempt_connect(void *arg)
{
	struct attempt *attempt = arg;

	CHECK(proxy_connect(&attempt->proxy, attempt->handles) != NCCL_SUCCESS);
	return NULL;
}

static void fail_at_once(struct fleet_node *node)
{
	static struct attempt attempts[COMMUNICATORS];
	void *library = library_open();
	char mine[NCCL_HANDLE_BYTES];
	struct collnet collnet;

	collnet_find(&collnet, library, COLLNET_NEWEST);
	for (int c = 0; c < COMMUNICATORS; c++) {
		proxy_listen(&attempts[c].proxy, &collnet, node, &shape, mine);
		fleet_gather(node, mine, sizeof(mine), attempts[c].handles);
	}
	for (int c = 0; c < COMMUNICATORS; c++) {
		struct attempt *attempt = &attempts[(c + node->rank) % COMMUNICATORS];

		CHECK(pthread_create(&attempt->thread, NULL, attempt_connect, attempt) == 0);
	}
	for (int c = 0; c < COMMUNICATORS; c++) {
		pthread_join(attempts[c].thread, NULL);
		proxy_close(&attempts[c].proxy);
	}
	CHECK(logbook_has(NCCL_LOG_INFO, getenv(LIST_VARIABLE)));
	library_close(library);
}

/* They wait side by side, not one after the other: the limit is below the sum of their time-outs.
 */
bool several_cannot_reach(void)
{
	char address[64];

	setenv("SUMMAND_CONNECT_TIMEOUT", "4", 1);
	servers_closed_address(address, sizeof(address));
	setenv(LIST_VARIABLE, address, 1);
	return fleet_run(&(struct fleet){.nnodes = 2, .seconds = 20, .body = fail_at_once});
}

/* ---- more communicators than the servers have memory for ---- */

/* A job may have 296 groups of two ranks in 512 MiB. Loops beyond the first must leave a third of them to others. */
enum { TOO_MANY = 400, THIRD = 98 };

/* All nodes are refused at the same one, with the reason. Those that there are go on, and another
 * one may come when one has gone. */
static void fill_memory(struct fleet_node *node)
{
	static struct proxy proxies[TOO_MANY];
	char handles[FLEET_NODES_MAX * NCCL_HANDLE_BYTES];
	char mine[NCCL_HANDLE_BYTES];
	struct proxy_op op = {.dtype = NCCL_FLOAT32, .count = 100, .seed = 3};
	void *library = library_open();
	struct collnet collnet;
	int n = 0;

	collnet_find(&collnet, library, COLLNET_NEWEST);
	for (bool on = true; on; n += on) {
		CHECK(n < TOO_MANY);
		proxy_listen(&proxies[n], &collnet, node, &shape, mine);
		fleet_gather(node, mine, sizeof(mine), handles);
		logbook_clear();
		on = connect_together(node, &proxies[n], handles);
	}
	CHECK(n >= (getenv("SUMMAND_TEST_RDMA") ? 1 : THIRD));
	CHECK(logbook_has(NCCL_LOG_INFO, "memory"));
	proxy_close(&proxies[n]);
	proxy_register(&proxies[0]);
	CHECK_EQUAL(proxy_fill_and_start(&proxies[0], &op), NCCL_SUCCESS);
	proxy_wait(&proxies[0], &op);
	proxy_verify(&proxies[0], &op);
	proxy_deregister(&proxies[0], PROXY_SEND);
	proxy_close(&proxies[--n]);
	fleet_barrier(node);
	connect_again(node, &collnet);
	while (n > 0) {
		proxy_close(&proxies[--n]);
	}
	library_close(library);
}

bool servers_have_no_memory(void)
{
	return servers_run((struct fleet){.nnodes = 2, .seconds = 60, .body = fill_memory}, 1);
}
