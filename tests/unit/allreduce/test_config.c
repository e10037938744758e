/*
 * What a worker takes from the environment: CLUSTER_SPEC, of which a malformed one is an error
 * where servers are wanted, and which job it is of.
 */
#include "worker/libsummand/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "reduction_server/base/log.h"

static const struct {
	const char *text;
	const char *error;
} malformed[] = {
	{"{", "CLUSTER_SPEC: must be JSON, got "},
	{"[]", "CLUSTER_SPEC: must be an object whose cluster is one, got []"},
	{"{\"cluster\": 3}", "CLUSTER_SPEC: must be an object whose cluster is one, got {"},
	{"{\"cluster\": {\"workerpool2\": \"a:1\"}}",
		"CLUSTER_SPEC: workerpool2 must list host:port strings, got {"},
	{"{\"cluster\": {\"workerpool2\": [1]}}",
		"CLUSTER_SPEC: workerpool2 must list host:port strings"},
	{"{\"cluster\": {\"workerpool2\": [\"nowhere\"]}}",
		"reduction servers: each must be host:port, got \"nowhere\""},
};

#define NMALFORMED (sizeof(malformed) / sizeof(malformed[0]))

static void test_servers_are_wanted_from_it(void **state)
{
	(void)state;
	for (size_t i = 0; i < NMALFORMED; i++) {
		struct smd_config config;
		struct smd_error error = {""};

		setenv("CLUSTER_SPEC", malformed[i].text, 1);
		assert_int_equal(smd_config_read(NULL, &config, &error), -EINVAL);
		assert_int_equal(
			strncmp(error.text, malformed[i].error, strlen(malformed[i].error)), 0);
	}
}

static void test_servers_are_known_otherwise(void **state)
{
	const struct smd_context_options options = {.servers = "127.0.0.1:1", .transport = "tcp"};

	(void)state;
	for (size_t i = 0; i < NMALFORMED; i++) {
		struct smd_config config;
		struct smd_error error = {""};

		setenv("CLUSTER_SPEC", malformed[i].text, 1);
		assert_int_equal(smd_config_read(&options, &config, &error), 0);
		assert_int_equal(config.nservers, 1);
		smd_config_free(&config);
	}
}

static unsigned warned;

static void count_warnings(enum smd_log_level level, const char *component, const char *sentence)
{
	(void)component;
	warned += level == SMD_LOG_WARN && strstr(sentence, "CLUSTER_SPEC: task must be") != NULL;
}

/* It names the replica, and a bad one is told and costs nothing else. */
static void test_the_task_names_the_replica(void **state)
{
	static const struct {
		const char *text;
		const char *replica; /* NULL: told, and the process has another name */
	} tasks[] = {
		{"{\"task\": {\"type\": \"workerpool1\", \"index\": 3}}", "workerpool1-3"},
		{"{\"task\": {\"type\": \"chief\", \"index\": 0, \"trial\": \"7\"}}", "chief-0"},
		{"{\"task\": {\"type\": \"w\", \"index\": \"0\"}}", NULL},
		{"{\"task\": {\"type\": \"w\", \"index\": -7}}", NULL},
		{"{\"task\": {\"type\": \"w\", \"index\": 0.5}}", NULL},
		{"{\"task\": {\"index\": 0}}", NULL},
		{"{\"task\": [1]}", NULL},
		{"{\"task\": null}", NULL},
	};
	const struct smd_context_options options = {.servers = "127.0.0.1:1", .transport = "tcp"};

	(void)state;
	smd_log_set_sink(count_warnings);
	for (size_t i = 0; i < sizeof(tasks) / sizeof(tasks[0]); i++) {
		struct smd_config config;
		struct smd_error error = {""};

		warned = 0;
		setenv("CLUSTER_SPEC", tasks[i].text, 1);
		assert_int_equal(smd_config_read(&options, &config, &error), 0);
		assert_int_equal(warned, tasks[i].replica == NULL);
		if (tasks[i].replica) {
			assert_string_equal(config.replica, tasks[i].replica);
		} else {
			assert_non_null(strchr(config.replica, ':')); /* host:pid */
		}
		smd_config_free(&config);
	}
	smd_log_set_sink(NULL);
	unsetenv("CLUSTER_SPEC");
}

/* ---- jobs ---- */

static const char *const job_variables[] = {"SUMMAND_JOB_ID", "SUMMAND_ATTEMPT", "PMIX_NAMESPACE",
	"HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_GLOO_RENDEZVOUS_PORT", "MASTER_ADDR",
	"MASTER_PORT", "SLURM_JOB_ID", "SLURM_STEP_ID", "PBS_JOBID", "LSB_JOBID"};

static void forget_jobs(void)
{
	unsetenv("CLUSTER_SPEC");
	for (size_t i = 0; i < sizeof(job_variables) / sizeof(job_variables[0]); i++) {
		unsetenv(job_variables[i]);
	}
}

static void assert_job(const char *expected)
{
	const struct smd_context_options options = {.servers = "127.0.0.1:1", .transport = "tcp"};
	struct smd_config config;
	struct smd_error error = {""};

	assert_int_equal(smd_config_read(&options, &config, &error), 0);
	assert_string_equal(config.job, expected);
	smd_config_free(&config);
}

/* From the outermost launcher to the innermost, and what somebody says himself last. */
static void test_the_job_is_what_the_launcher_calls_it(void **state)
{
	(void)state;
	forget_jobs();
	assert_job("");
	setenv("LSB_JOBID", "9", 1);
	assert_job("lsf:9");
	setenv("PBS_JOBID", "123.host", 1);
	assert_job("pbs:123.host");
	setenv("SLURM_JOB_ID", "77", 1);
	assert_job("slurm:77");
	setenv("SLURM_STEP_ID", "0", 1);
	assert_job("slurm:77.0");
	setenv("MASTER_ADDR", "10.0.0.1", 1);
	assert_job("slurm:77.0"); /* the address alone is no job's own */
	setenv("MASTER_PORT", "29500", 1);
	assert_job("torch:10.0.0.1:29500");
	setenv("HOROVOD_GLOO_RENDEZVOUS_ADDR", "10.0.0.2", 1);
	setenv("HOROVOD_GLOO_RENDEZVOUS_PORT", "4000", 1);
	assert_job("horovod:10.0.0.2:4000");
	setenv("PMIX_NAMESPACE", "prterun-a-12@1", 1);
	assert_job("mpi:prterun-a-12@1");
	setenv("SUMMAND_JOB_ID", "mine", 1);
	assert_job("mine");
	forget_jobs();
}

static void test_a_later_attempt_is_a_job_of_its_own(void **state)
{
	(void)state;
	forget_jobs();
	setenv("SUMMAND_ATTEMPT", "1", 1);
	assert_job(""); /* it says nothing of which job it is of */
	setenv("SUMMAND_JOB_ID", "mine", 1);
	assert_job("mine#1");
	setenv("SUMMAND_ATTEMPT", "0", 1);
	assert_job("mine");
	setenv("SUMMAND_ATTEMPT", "", 1); /* as Kubernetes sets what it takes from a label that is not there */
	assert_job("mine");
	setenv("SUMMAND_ATTEMPT", "12", 1);
	assert_job("mine#12");
	setenv("SUMMAND_JOB_ID", "", 1);
	setenv("SLURM_JOB_ID", "77", 1);
	assert_job("slurm:77#12");
	forget_jobs();
}

static void test_an_attempt_that_cannot_be_is_refused(void **state)
{
	static const char *const texts[] = {" ", "-1", "one", "4294967296"};
	const struct smd_context_options options = {.servers = "127.0.0.1:1", .transport = "tcp"};
	char job[SMD_STRING_MAX + 1];
	struct smd_config config;
	struct smd_error error;

	(void)state;
	forget_jobs();
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		setenv("SUMMAND_ATTEMPT", texts[i], 1);
		error.text[0] = '\0';
		assert_int_equal(smd_config_read(&options, &config, &error), -EINVAL);
		assert_int_equal(strncmp(error.text, "SUMMAND_ATTEMPT: must be 0 to ", 30), 0);
	}
	memset(job, 'j', sizeof(job) - 1);
	job[sizeof(job) - 1] = '\0';
	setenv("SUMMAND_JOB_ID", job, 1);
	setenv("SUMMAND_ATTEMPT", "0", 1);
	assert_job(job);
	setenv("SUMMAND_ATTEMPT", "10", 1);
	error.text[0] = '\0';
	assert_int_equal(smd_config_read(&options, &config, &error), -EINVAL);
	assert_string_equal(
		error.text, "SUMMAND_JOB_ID: must leave room for #10 in 255 bytes, got 255");
	job[sizeof(job) - 4] = '\0';
	setenv("SUMMAND_JOB_ID", job, 1);
	strcat(job, "#10");
	assert_job(job);
	forget_jobs();
}

/* Two jobs of one machine each are not one because each calls its machine so. */
static void test_a_loopback_address_is_of_its_host(void **state)
{
	static const char *const addresses[] = {"127.0.0.1", "localhost", "::1"};
	char host[128] = "";
	char expected[256];

	(void)state;
	assert_int_equal(gethostname(host, sizeof(host) - 1), 0);
	setenv("MASTER_PORT", "29500", 1);
	for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
		setenv("MASTER_ADDR", addresses[i], 1);
		snprintf(expected, sizeof(expected), "torch:%s/%s:29500", host, addresses[i]);
		assert_job(expected);
	}
	forget_jobs();
}

static void test_a_job_that_cannot_be_is_refused_by_its_variable(void **state)
{
	const struct smd_context_options options = {.servers = "127.0.0.1:1", .transport = "tcp"};
	char longest[512];
	struct smd_config config;
	struct smd_error error = {""};

	(void)state;
	memset(longest, 'j', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	setenv("PMIX_NAMESPACE", longest, 1);
	assert_int_equal(smd_config_read(&options, &config, &error), -EINVAL);
	assert_non_null(strstr(error.text, "PMIX_NAMESPACE: must have at most 255 bytes"));
	setenv("PMIX_NAMESPACE", "a\tb", 1);
	error.text[0] = '\0';
	assert_int_equal(smd_config_read(&options, &config, &error), -EINVAL);
	assert_string_equal(error.text, "PMIX_NAMESPACE: must have no control characters");
	forget_jobs();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_servers_are_wanted_from_it),
		cmocka_unit_test(test_servers_are_known_otherwise),
		cmocka_unit_test(test_the_task_names_the_replica),
		cmocka_unit_test(test_the_job_is_what_the_launcher_calls_it),
		cmocka_unit_test(test_a_later_attempt_is_a_job_of_its_own),
		cmocka_unit_test(test_an_attempt_that_cannot_be_is_refused),
		cmocka_unit_test(test_a_loopback_address_is_of_its_host),
		cmocka_unit_test(test_a_job_that_cannot_be_is_refused_by_its_variable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
