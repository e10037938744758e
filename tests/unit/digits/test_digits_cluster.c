/* The cluster: which pool makes which role and rank. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "worker/examples/digits/cluster.h"

#define POOLS                                                                                      \
	"\"cluster\":{\"workerpool0\":[\"a:1\"],\"workerpool1\":[\"b:1\",\"c:1\",\"d:1\"],"        \
	"\"workerpool2\":[\"e:1\"],\"workerpool3\":[\"f:1\"]}"

static int read_task(const char *task, struct digits_cluster *cluster, struct smd_error *error)
{
	char text[512];

	*error = (struct smd_error){""};
	snprintf(text, sizeof(text), "{" POOLS ",\"task\":{%s}}", task);
	return digits_cluster_read(text, cluster, error);
}

static void position_decides_the_role(void **state)
{
	struct digits_cluster cluster;
	struct smd_error error;

	(void)state;
	assert_int_equal(digits_cluster_read(NULL, &cluster, NULL), 0);
	assert_int_equal(cluster.role, DIGITS_ALONE);
	assert_int_equal(cluster.nranks, 1);
	assert_int_equal(read_task("\"type\":\"workerpool0\",\"index\":0", &cluster, &error), 0);
	assert_int_equal(cluster.role, DIGITS_CHIEF);
	assert_int_equal(cluster.rank, 0);
	assert_int_equal(cluster.nranks, 4);
	assert_int_equal(read_task("\"type\":\"workerpool1\",\"index\":2", &cluster, &error), 0);
	assert_int_equal(cluster.role, DIGITS_WORKER);
	assert_int_equal(cluster.rank, 3);
	assert_int_equal(cluster.nranks, 4);
	assert_int_equal(read_task("\"type\":\"workerpool3\",\"index\":0", &cluster, &error), 0);
	assert_int_equal(cluster.role, DIGITS_EVALUATOR);
}

static void tasks_that_are_none(void **state)
{
	static const char *const cases[][2] = {
		{"\"index\":0",
			"CLUSTER_SPEC: task must have a type (string) and an index (number)"},
		{"\"type\":\"workerpool1\",\"index\":\"0\"",
			"CLUSTER_SPEC: task must have a type (string) and an index (number)"},
		{"\"type\":\"workerpool1\",\"index\":3", "CLUSTER_SPEC: task.index must be below "
							 "the 3 replicas of workerpool1, got 3"},
		{"\"type\":\"workerpool1\",\"index\":-1", "CLUSTER_SPEC: task.index must be below "
							  "the 3 replicas of workerpool1, got -1"},
		{"\"type\":\"workerpool2\",\"index\":0",
			"CLUSTER_SPEC: task.type must be workerpool0, 1 or 3, got \"workerpool2\""},
	};
	struct digits_cluster cluster;
	struct smd_error error;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(read_task(cases[i][0], &cluster, &error), -EINVAL);
		assert_string_equal(error.text, cases[i][1]);
	}
}

static void texts_that_are_none(void **state)
{
	static const char *const cases[] = {"", "{", "[]", "{}", "{\"cluster\":[]}",
		"{\"cluster\":{\"workerpool0\":[\"a:1\",\"b:1\"]}}"};
	struct digits_cluster cluster;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct smd_error error = {""};

		assert_int_equal(digits_cluster_read(cases[i], &cluster, &error), -EINVAL);
		assert_int_equal(strncmp(error.text, "CLUSTER_SPEC:", 13), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(position_decides_the_role),
		cmocka_unit_test(tasks_that_are_none),
		cmocka_unit_test(texts_that_are_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
