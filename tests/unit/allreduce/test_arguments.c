/* What callers pass: each argument that cannot be is refused with the reason. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "tests/unit/allreduce/fixture.h"

#define CHECK_SAYS(text) CHECK(strstr(smd_error_message(), (text)) != NULL)

static void arguments_of_a_communicator_are_checked(void **state)
{
	char longest[257] = "";
	const struct {
		const char *group;
		int nranks;
		int rank;
		const char *text;
	} cases[] = {
		{NULL, 2, 0, "group: its name must have 1 to 255 bytes"},
		{"", 2, 0, "group: its name must have 1 to 255 bytes"},
		{longest, 2, 0, "group: its name must have 1 to 255 bytes"},
		{"a\nb", 2, 0, "group: its name must have no control characters"},
		{"g", 0, 0, "group g: ranks must be 1 to 4096, got 0"},
		{"g", -1, 0, "group g: ranks must be 1 to 4096, got -1"},
		{"g", 4097, 0, "group g: ranks must be 1 to 4096, got 4097"},
		{"g", 2, 2, "group g: rank must be 0 to 1, got 2"},
		{"g", 2, -1, "group g: rank must be 0 to 1, got -1"},
	};
	struct pool pool;
	smd_context *context;
	smd_comm *comm;

	(void)state;
	memset(longest, 'g', 256);
	pool_start(&pool, "tcp", 1, NULL);
	context = pool_context(&pool, 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(smd_comm_create(context, cases[i].group, cases[i].nranks,
					 cases[i].rank, &comm),
			-EINVAL);
		assert_string_equal(smd_error_message(), cases[i].text);
	}
	longest[255] = '\0';
	assert_int_equal(smd_comm_create(context, longest, 1, 0, &comm), 0);
	assert_int_equal(smd_comm_rank(comm), 0);
	assert_int_equal(smd_comm_size(comm), 1);
	smd_comm_destroy(comm);
	smd_context_destroy(context);
	pool_stop(&pool);
}

static void arguments_of_a_context_are_checked(void **state)
{
	char longest[257] = "";
	const struct {
		struct smd_context_options options;
		int err;
		const char *text;
	} cases[] = {
		{{.servers = ""}, -ENOENT, "no reduction servers: set SUMMAND_REDUCTION_SERVERS="},
		{{.servers = "nowhere"}, -EINVAL,
			"reduction servers: each must be host:port, got \"nowhere\""},
		{{.servers = "a:1,,b:2"}, -EINVAL,
			"reduction servers: each must be host:port, got \"\""},
		{{.servers = "a:0"}, -EINVAL,
			"reduction servers: each must be host:port, got \"a:0\""},
		{{.servers = "a:1", .transport = "pigeon"}, -EINVAL,
			"SUMMAND_TRANSPORT: must be auto, shm, rdma or tcp, got \"pigeon\""},
		{{.servers = "a:1", .replica = longest}, -EINVAL,
			"SUMMAND_REPLICA: must have at most 255 bytes, got 256"},
		{{.servers = "a:1", .replica = "a\tb"}, -EINVAL,
			"SUMMAND_REPLICA: must have no control characters"},
		{{.servers = "a:1", .job = "a\x7f"}, -EINVAL,
			"SUMMAND_JOB_ID: must have no control characters"},
	};
	smd_context *context;

	(void)state;
	memset(longest, 'r', 256);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(smd_context_create(&cases[i].options, &context), cases[i].err);
		assert_ptr_equal(strstr(smd_error_message(), cases[i].text), smd_error_message());
	}
}

static void check_operation(smd_comm *comm)
{
	float buffer[64] = {0};

	CHECK(smd_allreduce(comm, buffer, buffer + 1, 8, SMD_FLOAT32, SMD_SUM) == -EINVAL);
	CHECK_SAYS("send and recv must be the same or must not overlap");
	CHECK(smd_allreduce(comm, buffer + 7, buffer, 8, SMD_FLOAT32, SMD_SUM) == -EINVAL);
	CHECK(smd_allreduce(comm, buffer, buffer + 8, 8, SMD_FLOAT32, SMD_SUM) == 0);
	CHECK(smd_allreduce(comm, NULL, buffer, 8, SMD_FLOAT32, SMD_SUM) == -EINVAL);
	CHECK_SAYS("buffers must not be NULL");
	CHECK(smd_allreduce(comm, NULL, NULL, 0, SMD_FLOAT32, SMD_SUM) == 0);
	CHECK(smd_allreduce(comm, buffer, buffer, SIZE_MAX / 4, SMD_FLOAT32, SMD_SUM) == -EINVAL);
	CHECK_SAYS("count must fit into memory");
	CHECK(smd_allreduce(comm, buffer, buffer, 8, (enum smd_dtype)99, SMD_SUM) == -EINVAL);
	CHECK_SAYS("the element type must be 0 to 11, got 99");
	CHECK(smd_allreduce(comm, buffer, buffer, 8, SMD_FLOAT32, (enum smd_op)99) == -EINVAL);
	CHECK_SAYS("must be one of sum, prod, max, min, avg, got op 99 of float32");
	CHECK(smd_reduce(comm, buffer, buffer, 8, SMD_FLOAT32, SMD_SUM, 1) == -EINVAL);
	CHECK_SAYS("reduce in group alone: the root must be a rank below 1, got 1");
	CHECK(smd_broadcast(comm, buffer, 8, SMD_FLOAT32, -1) == -EINVAL);
	CHECK_SAYS("broadcast in group alone: the root must be a rank below 1");
	CHECK(smd_broadcast(comm, NULL, 8, SMD_FLOAT32, 0) == -EINVAL);
	CHECK_SAYS("broadcast in group alone: buffers must not be NULL");
}

/* A refused call is no operation: nothing is sent, and the next one is right. */
static void arguments_of_an_operation_are_checked(void **state)
{
	struct pool pool;
	smd_context *context;
	smd_comm *comm;

	(void)state;
	pool_start(&pool, "tcp", 1, NULL);
	context = pool_context(&pool, 0);
	assert_int_equal(smd_comm_create(context, "alone", 1, 0, &comm), 0);
	check_operation(comm);
	smd_comm_destroy(comm);
	smd_context_destroy(context);
	pool_stop(&pool);
}

static void sizes_of_types(void **state)
{
	(void)state;
	assert_int_equal(smd_dtype_size(SMD_FLOAT32), 4);
	assert_int_equal(smd_dtype_size(SMD_FLOAT64), 8);
	assert_int_equal(smd_dtype_size(SMD_BFLOAT16), 2);
	assert_int_equal(smd_dtype_size((enum smd_dtype)99), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arguments_of_a_communicator_are_checked),
		cmocka_unit_test(arguments_of_a_context_are_checked),
		cmocka_unit_test(arguments_of_an_operation_are_checked),
		cmocka_unit_test(sizes_of_types),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
