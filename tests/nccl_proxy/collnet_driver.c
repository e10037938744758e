/* Plays one scenario of CollNet: collnet_driver NAME. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/nccl_proxy/scenarios.h"

static const struct {
	const char *name;
	bool (*play)(void);
} scenarios[] = {
	{"versions", every_version},
	{"operations", every_operation},
	{"bounce", bounce_buffer},
	{"whole", whole_buffer},
	{"loops", several_loops},
	{"several", several_communicators},
	{"many", many_communicators},
	{"windows", gather_and_scatter},
	{"decline", decline_without_servers},
	{"unreachable", one_cannot_reach},
	{"disagree", one_has_other_servers},
	{"absent", one_does_not_come},
	{"connect_dies", one_dies_in_connect},
	{"connect_server_dies", server_dies_in_connect},
	{"unreachable_several", several_cannot_reach},
	{"memory", servers_have_no_memory},
	{"strangers", strangers_come},
	{"server_dies", server_dies},
	{"servers_return", servers_return},
	{"stall", servers_stall},
	{"rank_dies", rank_dies},
	{"pending", close_with_pending},
	{"unmapped", buffer_goes_first},
};

int main(int argc, char **argv)
{
	/* As a job gives it, on a machine whose own network is not to be used. */
	setenv("NCCL_COLLNET_ENABLE", "1", 1);
	setenv("NCCL_SOCKET_IFNAME", "lo", getenv("SUMMAND_TEST_RDMA") == NULL);
	setenv("SUMMAND_CONNECT_TIMEOUT", getenv("SUMMAND_TEST_RDMA") ? "120" : "20", 1);
	setenv("SUMMAND_NCCL_LOOPS", "1", 0); /* not as many as this machine's processors ask for */
	unsetenv("CLUSTER_SPEC");
	for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
		if (argc == 2 && strcmp(argv[1], scenarios[i].name) == 0) {
			return scenarios[i].play() ? EXIT_SUCCESS : EXIT_FAILURE;
		}
	}
	fprintf(stderr, "collnet_driver: one scenario must be named\n");
	return 2;
}
