/* When the plugin takes part: what is set decides, and what cannot work is declined at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/nccl_plugin/abi/nccl_abi.h"

extern const struct nccl_net_v10 ncclNetPlugin_v10;
extern const struct nccl_collnet_v9 ncclCollNetPlugin_v10;

static char last_line[1024];

static void log_line(enum nccl_log_level level, unsigned long subsystems, const char *file,
	int line, const char *format, ...)
{
	va_list args;

	(void)level;
	(void)subsystems;
	(void)file;
	(void)line;
	va_start(args, format);
	vsnprintf(last_line, sizeof(last_line), format, args);
	va_end(args);
}

/* All is there. */
static int variables_of_a_job(void **state)
{
	(void)state;
	setenv("NCCL_SOCKET_IFNAME", "=lo", 1);
	setenv("NCCL_SOCKET_FAMILY", "AF_INET", 1);
	setenv("NCCL_COLLNET_ENABLE", "1", 1);
	setenv("SUMMAND_REDUCTION_SERVERS", "127.0.0.1:1", 1);
	unsetenv("SUMMAND_TRANSPORT");
	unsetenv("SUMMAND_NCCL_SOCKETS");
	unsetenv("SUMMAND_NCCL_LOOPS");
	unsetenv("SUMMAND_NCCL_GDR");
	unsetenv("SUMMAND_NCCL_ON_LOSS");
	unsetenv("CLUSTER_SPEC");
	return 0;
}

static void assert_on(void)
{
	assert_int_equal(ncclNetPlugin_v10.init(log_line, NULL), NCCL_SUCCESS);
	assert_int_equal(ncclCollNetPlugin_v10.init(log_line), NCCL_SUCCESS);
}

/* Both decline alike, so that NCCL goes on with its own networks. */
static void assert_off(const char *reason)
{
	assert_int_equal(ncclNetPlugin_v10.init(log_line, NULL), NCCL_INTERNAL_ERROR);
	if (!strstr(last_line, reason)) {
		fail_msg("must have \"%s\", got \"%s\"", reason, last_line);
	}
	assert_int_equal(ncclCollNetPlugin_v10.init(log_line), NCCL_INTERNAL_ERROR);
}

static void with_collnet_and_servers_it_is_on(void **state)
{
	(void)state;
	assert_on();
}

static void without_collnet_it_is_off(void **state)
{
	(void)state;
	unsetenv("NCCL_COLLNET_ENABLE");
	assert_off("off: NCCL_COLLNET_ENABLE must be 1, got nothing");
	setenv("NCCL_COLLNET_ENABLE", "0", 1);
	assert_off("off: NCCL_COLLNET_ENABLE must be 1, got \"0\"");
}

static void without_servers_it_is_off(void **state)
{
	(void)state;
	unsetenv("SUMMAND_REDUCTION_SERVERS");
	assert_off("off: ");
}

/* Over RDMA alone, where a device that NCCL may choose has none. */
static void a_transport_that_a_device_lacks_declines(void **state)
{
	(void)state;
	setenv("SUMMAND_TRANSPORT", "rdma", 1);
	assert_off("off: SUMMAND_TRANSPORT: lo must have an RDMA device, or it must not be rdma");
}

/* NCCL's other traffic goes over the plugin too, and from host to host. */
static void a_transport_within_a_host_alone_declines(void **state)
{
	(void)state;
	setenv("SUMMAND_TRANSPORT", "shm", 1);
	assert_off("off: SUMMAND_TRANSPORT: must be one that crosses hosts, for what does not go "
		   "through "
		   "reduction servers, got shm");
}

static void a_number_of_sockets_that_is_none_declines(void **state)
{
	(void)state;
	setenv("SUMMAND_NCCL_SOCKETS", "17", 1);
	assert_off("off: SUMMAND_NCCL_SOCKETS: must be 1 to 16, got \"17\"");
	setenv("SUMMAND_NCCL_SOCKETS", "", 1);
	assert_on();
	setenv("SUMMAND_NCCL_SOCKETS", "16", 1);
	assert_on();
}

static void a_value_that_there_is_not_declines(void **state)
{
	(void)state;
	setenv("SUMMAND_NCCL_LOOPS", "9", 1);
	assert_off("off: SUMMAND_NCCL_LOOPS: must be 1 to 8, got \"9\"");
	setenv("SUMMAND_NCCL_LOOPS", "", 1);
	assert_on();
	setenv("SUMMAND_NCCL_LOOPS", "8", 1);
	assert_on();
	setenv("SUMMAND_NCCL_GDR", "Flush", 1);
	assert_off("off: SUMMAND_NCCL_GDR: must be 0, 1 or flush, got \"Flush\"");
	setenv("SUMMAND_NCCL_GDR", "0", 1);
	assert_on();
	setenv("SUMMAND_NCCL_GDR", "flush", 1); /* whether it can work is asked of cards and GPUs */
	assert_on();
	setenv("SUMMAND_NCCL_ON_LOSS", "end", 1);
	assert_off("off: SUMMAND_NCCL_ON_LOSS: must be abort or wait, got \"end\"");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(with_collnet_and_servers_it_is_on, variables_of_a_job),
		cmocka_unit_test_setup(without_collnet_it_is_off, variables_of_a_job),
		cmocka_unit_test_setup(without_servers_it_is_off, variables_of_a_job),
		cmocka_unit_test_setup(
			a_transport_that_a_device_lacks_declines, variables_of_a_job),
		cmocka_unit_test_setup(
			a_transport_within_a_host_alone_declines, variables_of_a_job),
		cmocka_unit_test_setup(
			a_number_of_sockets_that_is_none_declines, variables_of_a_job),
		cmocka_unit_test_setup(a_value_that_there_is_not_declines, variables_of_a_job),
	};

	return cmocka_run_group_tests_name("decision", tests, NULL, NULL);
}
