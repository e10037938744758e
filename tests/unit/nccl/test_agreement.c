/* Nodes that agree, each on a thread of its own: all hear yes, or all hear no with the same reason.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "reduction_server/base/clock.h"
#include "worker/nccl_plugin/abi/nccl_abi.h"
#include "worker/nccl_plugin/collnet/agreement.h"
#include "worker/nccl_plugin/collnet/ballot.h"

#define NODES   4
#define LENGTHY (20 * SMD_SECOND_NS)

enum absence { PRESENT, NEVER_COMES, LEAVES_AFTER_ONE };

/* A node, and what its test wants of it. */
struct node {
	pthread_t thread;
	int network; /* a descriptor; 0: the tests' own */
	struct smd_nccl_device device;
	struct smd_agreement_place *place;
	uint8_t handle[NCCL_HANDLE_BYTES];
	const uint8_t *zero; /* node 0's handle */
	struct smd_agreement_side side;
	enum absence absence;
	int own[2]; /* what it votes */
	uint32_t server_mbps;
	uint64_t patience_ns;
	/* What came of it. */
	unsigned votes;
	struct smd_agreement_terms terms;
	int heard[2];
	struct smd_error error;
};

static struct smd_nccl_device loopback(void)
{
	struct smd_nccl_device device = {.name = "lo"};
	struct sockaddr_in *in = (struct sockaddr_in *)&device.address;

	in->sin_family = AF_INET;
	in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	device.address_length = sizeof(*in);
	return device;
}

static void *node_run(void *arg)
{
	struct node *node = arg;
	struct smd_agreement *agreement;

	if (node->absence == NEVER_COMES) {
		return NULL;
	}
	if (node->network) {
		assert_int_equal(setns(node->network, CLONE_NEWNET), 0);
	}
	assert_int_equal(
		smd_agreement_begin(node->place, node->zero, &node->side, &agreement, &node->error),
		0);
	for (unsigned i = 0; i < 2; i++) {
		struct smd_error own = {""};
		struct smd_agreement_terms first = {
			(node->side.node + NODES - 1) % NODES + 2, node->server_mbps};

		node->terms = i ? node->terms : first;
		if (node->own[i]) {
			snprintf(own.text, sizeof(own.text), "reason %u", i);
		}
		node->heard[i] = smd_agreement_vote(agreement, node->own[i], &own, &node->terms,
			smd_clock_ns() + node->patience_ns, 2 * SMD_SECOND_NS, &node->error);
		node->votes++;
		if (node->heard[i] || node->absence == LEAVES_AFTER_ONE) {
			break;
		}
	}
	smd_agreement_end(agreement);
	return NULL;
}

static void node_listen(struct node *node)
{
	struct smd_error error = {""};

	if (smd_agreement_listen(&node->device, node->handle, &node->place, &error)) {
		fail_msg("%s", error.text);
	}
}

static void nodes_make(struct node nodes[NODES])
{
	static const char *const names[NODES] = {"a", "b", "c", "d"};

	memset(nodes, 0, NODES * sizeof(*nodes));
	for (unsigned i = 0; i < NODES; i++) {
		nodes[i].device = loopback();
		node_listen(&nodes[i]);
		nodes[i].zero = nodes[0].handle;
		nodes[i].patience_ns = LENGTHY;
		nodes[i].side = (struct smd_agreement_side){
			.nnodes = NODES,
			.node = i,
			.name = names[i],
			.pool = 7,
			.servers = "s:1",
		};
	}
}

static void nodes_run(struct node nodes[NODES])
{
	for (unsigned i = 0; i < NODES; i++) {
		assert_int_equal(pthread_create(&nodes[i].thread, NULL, node_run, &nodes[i]), 0);
	}
	for (unsigned i = 0; i < NODES; i++) {
		pthread_join(nodes[i].thread, NULL);
		smd_agreement_unlisten(nodes[i].place);
	}
}

static void assert_all_heard(
	const struct node nodes[NODES], unsigned votes, int err, const char *reason)
{
	for (unsigned i = 0; i < NODES; i++) {
		if (nodes[i].absence != PRESENT) {
			continue;
		}
		assert_int_equal(nodes[i].votes, votes);
		assert_int_equal(nodes[i].heard[votes - 1], err);
		assert_string_equal(nodes[i].error.text, reason);
	}
}

static void all_say_yes(void **state)
{
	struct node nodes[NODES];

	(void)state;
	nodes_make(nodes);
	nodes_run(nodes);
	assert_all_heard(nodes, 2, 0, "");
	for (unsigned i = 0; i < NODES; i++) {
		assert_int_equal(nodes[i].terms.loops, 2); /* node 1's, which has the fewest */
	}
}

static void one_no_is_everybodys(void **state)
{
	(void)state;
	for (unsigned who = 0; who < NODES; who++) {
		for (unsigned phase = 0; phase < 2; phase++) {
			struct node nodes[NODES];
			char reason[64];

			nodes_make(nodes);
			nodes[who].own[phase] = -ECONNREFUSED;
			snprintf(reason, sizeof(reason), "node %u (%c): reason %u", who, 'a' + who,
				phase);
			nodes_run(nodes);
			assert_all_heard(nodes, phase + 1, -ECONNREFUSED, reason);
		}
	}
}

static void other_servers_are_a_no(void **state)
{
	struct node nodes[NODES];

	(void)state;
	nodes_make(nodes);
	nodes[2].side.pool = 8;
	nodes[2].side.servers = "t:1";
	nodes_run(nodes);
	assert_all_heard(nodes, 1, -EINVAL,
		"node 2 (c): its reduction servers and settings must be node 0's, s:1, got t:1");
}

static void those_that_know_what_servers_carry_tell_the_others(void **state)
{
	for (unsigned who = 0; who < NODES; who++) {
		struct node nodes[NODES];

		(void)state;
		nodes_make(nodes);
		nodes[who].server_mbps = 40000;
		nodes[(who + 1) % NODES].server_mbps = 40000;
		nodes_run(nodes);
		assert_all_heard(nodes, 2, 0, "");
		for (unsigned i = 0; i < NODES; i++) {
			assert_int_equal(nodes[i].terms.server_mbps, 40000);
		}
	}
}

static void servers_that_carry_something_else_are_a_no(void **state)
{
	struct node nodes[NODES];

	(void)state;
	nodes_make(nodes);
	nodes[0].server_mbps = 40000;
	nodes[3].server_mbps = 39999;
	nodes_run(nodes);
	assert_all_heard(nodes, 1, -EINVAL,
		"node 3 (d): its reduction servers must carry the others' 40000 Mbit/s, got 39999; "
		"SUMMAND_NCCL_SERVER_LINKS may say it instead");
}

static void who_does_not_come_is_named(void **state)
{
	struct node nodes[NODES];

	(void)state;
	nodes_make(nodes);
	nodes[3].absence = NEVER_COMES;
	for (unsigned i = 0; i < NODES; i++) {
		nodes[i].patience_ns = SMD_SECOND_NS;
	}
	nodes_run(nodes);
	assert_all_heard(nodes, 1, -ETIMEDOUT, "node 3: it has not come in time");
}

static void who_leaves_in_between_is_named(void **state)
{
	struct node nodes[NODES];

	(void)state;
	nodes_make(nodes);
	nodes[1].absence = LEAVES_AFTER_ONE;
	nodes_run(nodes);
	assert_all_heard(nodes, 2, -ECONNRESET, "node 1: it was lost while nodes agreed");
}

static void without_node_0_the_others_hear_no(void **state)
{
	struct node nodes[NODES];

	(void)state;
	nodes_make(nodes);
	nodes[0].absence = LEAVES_AFTER_ONE;
	nodes_run(nodes);
	assert_all_heard(nodes, 2, -ECONNRESET, "node 0 was lost while nodes agreed");
}

/* ---- many ---- */

#ifdef SANITIZED
enum { MANY = 64 };
#else
enum { MANY = 1024 };
#endif

static void many_say_yes(void **state)
{
	enum { STACK = 256 << 10 };
	struct node *nodes = calloc(MANY, sizeof(*nodes));
	struct rlimit files;
	pthread_attr_t attributes;

	(void)state;
	assert_non_null(nodes);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
	files.rlim_cur = files.rlim_max; /* all are in one process here, at both ends */
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
	if (files.rlim_max < 2 * MANY + 200) {
		free(nodes);
		skip();
	}
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK);
	for (unsigned i = 0; i < MANY; i++) {
		nodes[i].device = loopback();
		if (i < 2) {
			node_listen(&nodes[i]);
		} else {
			nodes[i].place = nodes[1].place; /* only node 0's is met at */
		}
		nodes[i].zero = nodes[0].handle;
		nodes[i].patience_ns = 3 * LENGTHY;
		nodes[i].side = (struct smd_agreement_side){
			.nnodes = MANY, .node = i, .name = "one", .pool = 7, .servers = "s:1"};
	}
	for (unsigned i = 0; i < MANY; i++) {
		assert_int_equal(
			pthread_create(&nodes[i].thread, &attributes, node_run, &nodes[i]), 0);
	}
	for (unsigned i = 0; i < MANY; i++) {
		pthread_join(nodes[i].thread, NULL);
		assert_string_equal(nodes[i].error.text, "");
		assert_int_equal(nodes[i].votes, 2);
	}
	pthread_attr_destroy(&attributes);
	smd_agreement_unlisten(nodes[0].place);
	smd_agreement_unlisten(nodes[1].place);
	free(nodes);
}

/* ---- addresses that hold on one link only ---- */

/* A network of its own, which the process is in from now on. -1: it may not. */
static int network_make(void)
{
	return unshare(CLONE_NEWNET) ? -1 : open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
}

__attribute__((format(printf, 1, 2))) static void run(const char *format, ...)
{
	char command[256];
	va_list args;

	va_start(args, format);
	vsnprintf(command, sizeof(command), format, args);
	va_end(args);
	assert_int_equal(system(command), 0);
}

static struct smd_nccl_device link_device(const char *name, unsigned host)
{
	struct smd_nccl_device device = {.address_length = sizeof(struct sockaddr_in6)};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};

	run("ip link set %s addrgenmode none up", name);
	run("ip -6 addr add fe80::%u/64 dev %s nodad", host, name);
	snprintf(device.name, sizeof(device.name), "%s", name);
	in6.sin6_addr.s6_addr[0] = 0xfe;
	in6.sin6_addr.s6_addr[1] = 0x80;
	in6.sin6_addr.s6_addr[15] = (uint8_t)host;
	in6.sin6_scope_id = if_nametoindex(name);
	memcpy(&device.address, &in6, sizeof(in6));
	return device;
}

static uint32_t link_number(const struct smd_nccl_device *device)
{
	struct sockaddr_in6 in6;

	memcpy(&in6, &device->address, sizeof(in6));
	return in6.sin6_scope_id;
}

/* Each of the two machines numbers the link in its own way. */
static void nodes_meet_by_addresses_of_their_link(void **state)
{
	int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	int networks[2] = {-1, -1};
	struct smd_nccl_device devices[2];
	struct node nodes[NODES];

	(void)state;
	if (access("/proc/net/if_inet6", R_OK) == 0 && (networks[0] = network_make()) >= 0) {
		networks[1] = network_make();
	}
	if (networks[0] < 0 || networks[1] < 0) {
		print_message("networks cannot be made here: link-local addresses are not tried\n");
		skip();
	}
	assert_int_equal(setns(home, CLONE_NEWNET), 0);
	nodes_make(nodes);
	assert_int_equal(setns(networks[1], CLONE_NEWNET), 0);
	run("ip link add far type veth peer name near");
	run("ip link set near netns /proc/%d/fd/%d", (int)getpid(), networks[0]);
	devices[1] = link_device("far", 2);
	assert_int_equal(setns(networks[0], CLONE_NEWNET), 0);
	devices[0] = link_device("near", 1);
	assert_int_not_equal(link_number(&devices[0]), link_number(&devices[1]));
	for (unsigned i = 0; i < NODES; i++) {
		smd_agreement_unlisten(nodes[i].place);
		nodes[i].network = networks[i > 0];
		nodes[i].device = devices[i > 0];
		assert_int_equal(setns(nodes[i].network, CLONE_NEWNET), 0);
		node_listen(&nodes[i]);
	}
	nodes_run(nodes);
	assert_all_heard(nodes, 2, 0, "");
	assert_int_equal(setns(home, CLONE_NEWNET), 0);
	close(networks[0]);
	close(networks[1]);
	close(home);
}

/* ---- strangers ---- */

static int dial_zero(const struct node *zero)
{
	struct sockaddr_in in;
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	/* The handle's last field. */
	memcpy(&in, zero->handle + 24, sizeof(in));
	assert_int_equal(connect(fd, (struct sockaddr *)&in, sizeof(in)), 0);
	return fd;
}

/* A process that can open nothing more, but for what is left up to its hard limit. */
static int vote_without_descriptors(int used, rlim_t more)
{
	struct node nodes[NODES];
	struct rlimit files;
	struct smd_agreement *agreement;
	struct smd_error own = {""};
	struct smd_error error = {""};
	uint64_t begin = smd_clock_ns();
	struct smd_agreement_terms terms = {.loops = 1};
	int highest;
	int filler;

	nodes_make(nodes);
	highest = dial_zero(&nodes[0]);
	highest = highest > used ? highest : used;
	while ((filler = socket(AF_INET, SOCK_STREAM, 0)) < highest) {
		assert_true(filler >= 0); /* what is closed below it is not left either */
	}
	highest = filler;
	files = (struct rlimit){(rlim_t)highest + 1, (rlim_t)highest + 1 + more};
	if (setrlimit(RLIMIT_NOFILE, &files) != 0 ||
		smd_agreement_begin(
			nodes[0].place, nodes[0].handle, &nodes[0].side, &agreement, &error) != 0) {
		return 1;
	}
	if (more) { /* it is accepted, and does not vote */
		return smd_agreement_vote(agreement, 0, &own, &terms, begin + SMD_SECOND_NS, 0,
			       &error) == -ETIMEDOUT &&
				       strcmp(error.text, "node 1: it has not come in time") == 0
			       ? 0
			       : 2;
	}
	return smd_agreement_vote(agreement, 0, &own, &terms, begin + LENGTHY, 0, &error) ==
				       -EMFILE &&
			       strcmp(error.text,
				       "node 0 (a): it has no descriptors left to hear 3 other "
				       "nodes: its limit (ulimit -Hn) must be larger") == 0 &&
			       smd_clock_ns() - begin < LENGTHY / 2
		       ? 0
		       : 3;
}

/* Node 0 needs as many as there are nodes: more than programs may open that have asked for none. */
static void without_descriptors_nobody_waits(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 4;
		i++) { /* poll() takes as many as may be open: here none, or not */
		pid_t child = fork();
		int status;

		if (child == 0) {
			_exit(vote_without_descriptors(i % 2 ? 100 : 0, i / 2 ? 200 : 0));
		}
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), 0);
	}
}

static void say(int fd, const void *bytes, size_t length)
{
	assert_int_equal(send(fd, bytes, length, MSG_NOSIGNAL), length);
}

/* Noise, silence, and ballots of another meeting, node or time: nobody is kept from agreeing. */
static void strangers_count_for_nothing(void **state)
{
	enum { SILENT = 100 };
	struct smd_ballot ballot = {.phase = 1, .node = 1, .err = -EIO, .loops = 1, .text = "hearsay"};
	uint8_t bytes[SMD_BALLOT_BYTES];
	struct node nodes[NODES];
	int fds[SILENT + 5];
	int n = 0;

	(void)state;
	nodes_make(nodes);
	while (n < SILENT) {
		fds[n++] = dial_zero(&nodes[0]);
	}
	memset(bytes, 'x', sizeof(bytes));
	say(fds[n++] = dial_zero(&nodes[0]), bytes, sizeof(bytes));
	smd_ballot_encode(&ballot, bytes); /* without the nonce */
	say(fds[n++] = dial_zero(&nodes[0]), bytes, sizeof(bytes));
	memcpy(ballot.nonce, nodes[0].handle + 4, sizeof(ballot.nonce));
	for (unsigned i = 0; i < 3; i++) {
		ballot.phase = i == 0 ? 2 : 1;
		ballot.node = i == 1 ? NODES : i == 2 ? 0 : 1;
		smd_ballot_encode(&ballot, bytes);
		say(fds[n++] = dial_zero(&nodes[0]), bytes, sizeof(bytes));
	}
	nodes_run(nodes);
	assert_all_heard(nodes, 2, 0, "");
	while (n) {
		close(fds[--n]);
	}
}

static void a_handle_of_something_else_is_refused(void **state)
{
	const struct smd_agreement_side side = {.nnodes = 2, .node = 1, .name = "b", .servers = ""};
	uint8_t handle[NCCL_HANDLE_BYTES] = "not ours";
	struct smd_agreement *agreement;
	struct smd_error error = {""};

	(void)state;
	assert_int_equal(smd_agreement_begin(NULL, handle, &side, &agreement, &error), -EPROTO);
	assert_non_null(strstr(error.text, "node 0 must use the same plugin"));
}

static void a_ballot_survives_the_way(void **state)
{
	struct smd_ballot out;
	struct smd_ballot in = {.phase = 2,
		.node = 65535,
		.err = -ETIMEDOUT,
		.loops = 8,
		.pool = ~0ull,
		.server_mbps = 400000};
	uint8_t bytes[SMD_BALLOT_BYTES];
	struct smd_error error = {""};

	(void)state;
	memset(in.nonce, 0xa5, sizeof(in.nonce));
	memset(in.name, 'n', sizeof(in.name) - 1);
	memset(in.text, 't', sizeof(in.text) - 1);
	smd_ballot_encode(&in, bytes);
	memset(&out, 0xff, sizeof(out));
	assert_int_equal(smd_ballot_decode(bytes, &out, &error), 0);
	assert_int_equal(out.phase, in.phase);
	assert_int_equal(out.node, in.node);
	assert_int_equal(out.err, in.err);
	assert_int_equal(out.loops, in.loops);
	assert_true(out.pool == in.pool);
	assert_int_equal(out.server_mbps, in.server_mbps);
	assert_memory_equal(out.nonce, in.nonce, sizeof(in.nonce));
	assert_string_equal(out.name, in.name);
	assert_string_equal(out.text, in.text);
	memset(bytes + 52, '\033', SMD_BALLOT_BYTES - 52); /* texts that a terminal would obey */
	assert_int_equal(smd_ballot_decode(bytes, &out, &error), 0);
	assert_string_equal(out.name, "");
	assert_string_equal(out.text, "");
	in.err = 0; /* a yes has loops */
	in.loops = 0;
	smd_ballot_encode(&in, bytes);
	assert_int_equal(smd_ballot_decode(bytes, &out, &error), -EPROTO);
	in.loops = 1;
	for (unsigned i = 0; i < 24; i += 4) { /* magic, version, ..., err, loops */
		bool bounded = i == 8 || i == 12;

		smd_ballot_encode(&in, bytes);
		memset(bytes + i, 0xff, 4);
		assert_int_equal(smd_ballot_decode(bytes, &out, &error), bounded ? 0 : -EPROTO);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_say_yes),
		cmocka_unit_test(one_no_is_everybodys),
		cmocka_unit_test(other_servers_are_a_no),
		cmocka_unit_test(those_that_know_what_servers_carry_tell_the_others),
		cmocka_unit_test(servers_that_carry_something_else_are_a_no),
		cmocka_unit_test(who_does_not_come_is_named),
		cmocka_unit_test(who_leaves_in_between_is_named),
		cmocka_unit_test(without_node_0_the_others_hear_no),
		cmocka_unit_test(without_descriptors_nobody_waits),
		cmocka_unit_test(many_say_yes),
		cmocka_unit_test(nodes_meet_by_addresses_of_their_link),
		cmocka_unit_test(strangers_count_for_nothing),
		cmocka_unit_test(a_handle_of_something_else_is_refused),
		cmocka_unit_test(a_ballot_survives_the_way),
	};

	return cmocka_run_group_tests_name("agreement", tests, NULL, NULL);
}
