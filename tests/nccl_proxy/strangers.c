/* A scenario in which others than the nodes come to where the nodes meet. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/nccl_proxy/library.h"
#include "tests/nccl_proxy/scenarios.h"
#include "tests/nccl_proxy/servers.h"
#include "tests/nccl_proxy/stream.h"

enum { MEMBERS = 3, STRANGER = 3, SILENT = 70, LOUD = 30, DESCRIPTORS = 1024 };

/* The ports at which this process listens. */
static int find_ports(uint16_t ports[DESCRIPTORS])
{
	int n = 0;

	for (int fd = 0; fd < DESCRIPTORS; fd++) {
		struct sockaddr_in bound = {0};
		socklen_t length = sizeof(int);
		int listens = 0;

		if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) == 0 && listens) {
			length = sizeof(bound);
			CHECK(getsockname(fd, (struct sockaddr *)&bound, &length) == 0);
			CHECK_EQUAL(bound.sin_family, AF_INET);
			ports[n++] = ntohs(bound.sin_port);
		}
	}
	return n;
}

static int call(uint16_t port)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0);
	CHECK(connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
	return fd;
}

/* Some say nothing, some say anything, in pieces or more than a message, and some go at once. */
static void disturb(uint16_t port, int fds[SILENT + LOUD])
{
	char noise[3000];

	for (size_t i = 0; i < sizeof(noise); i++) {
		noise[i] = (char)(i * 2654435761u >> 7);
	}
	for (int i = 0; i < SILENT + LOUD; i++) {
		fds[i] = call(port);
		if (i >= SILENT) {
			size_t size = (size_t)i % 7 * 450 + 1;

			(void)!send(fds[i], noise, size, MSG_NOSIGNAL);
		}
		if (i % 5 == 0) {
			close(fds[i]);
			fds[i] = -1;
		}
	}
}

static void meet_strangers(struct fleet_node *node)
{
	static const int members[MEMBERS] = {0, 1, 2};
	const struct proxy_shape shape = {1, members, MEMBERS, 4, 64 << 10};
	struct proxy_op op = {.dtype = NCCL_FLOAT32, .count = 5000, .seed = 3};
	char handles[FLEET_NODES_MAX * NCCL_HANDLE_BYTES];
	uint16_t ports[DESCRIPTORS] = {0};
	uint16_t all[FLEET_NODES_MAX];
	char mine[NCCL_HANDLE_BYTES];
	int fds[SILENT + LOUD];
	void *library = library_open();
	struct collnet collnet;
	struct proxy proxy;

	collnet_find(&collnet, library, COLLNET_NEWEST);
	proxy_listen(&proxy, &collnet, node, &shape, mine);
	CHECK_EQUAL(find_ports(ports), node->rank == STRANGER ? 0 : 1);
	fleet_gather(node, mine, sizeof(mine), handles);
	fleet_gather(node, ports, sizeof(ports[0]), all);
	if (node->rank == STRANGER) {
		disturb(all[0], fds);
	}
	fleet_barrier(node);
	if (node->rank != STRANGER) {
		CHECK_EQUAL(proxy_connect(&proxy, handles), NCCL_SUCCESS);
		proxy_register(&proxy);
		CHECK_EQUAL(proxy_fill_and_start(&proxy, &op), NCCL_SUCCESS);
		proxy_wait(&proxy, &op);
		proxy_verify(&proxy, &op);
		proxy_deregister(&proxy, PROXY_SEND);
		proxy_close(&proxy);
	}
	fleet_barrier(node);
	for (int i = 0; node->rank == STRANGER && i < SILENT + LOUD; i++) {
		if (fds[i] >= 0) {
			close(fds[i]);
		}
	}
	library_close(library);
}

bool strangers_come(void)
{
	return servers_run(
		(struct fleet){.nnodes = MEMBERS + 1, .seconds = 30, .body = meet_strangers}, 1);
}
