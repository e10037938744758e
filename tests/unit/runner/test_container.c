/* The command lines of the programs that run containers. */
#include "worker/agent/host/container.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char *command[] = {(char[]){"python3"}, (char[]){"train.py"}, NULL};
static struct smd_variable variables[] = {{(char[]){"RANK"}, (char[]){"3"}},
	{(char[]){"CUDA_VISIBLE_DEVICES"}, (char[]){"2,3"}},
	{(char[]){"PATH"}, (char[]){"/opt/bin"}}, {(char[]){"DOCKER_KEY"}, (char[]){"secret"}}};
static const struct smd_environment environment = {.variables = variables, .count = 4};
static const struct smd_mount mounts[] = {
	{"/jobs/one/code", 1},
	{"/jobs/one/token", 0},
};
static const struct smd_launch launch = {.argv = command,
	.environment = &environment,
	.image = "example.org/trainer:1",
	.has_command = 1,
	.name = "summand-7-workerpool1-0",
	.mounts = mounts,
	.nmounts = 2,
	.directory = "/jobs/one/code"};

/* What this process's group is in its containers. */
static unsigned group_in(const char *runtime)
{
	return strcmp(runtime, "podman") == 0 && geteuid() != 0 ? 0 : getegid();
}

static void expect(const char *runtime, const struct smd_launch *request, const char *expected)
{
	char **argv = smd_container_argv(smd_container_runtime_find(runtime), request);
	char text[1024] = "";

	assert_non_null(argv);
	for (size_t i = 0; argv[i]; i++) {
		strcat(text, i ? " " : "");
		if (strncmp(argv[i], "--group-add=", 12) == 0) {
			assert_int_equal(strtoul(argv[i] + 12, NULL, 10), group_in(runtime));
			strcat(text, "--group-add=GROUP");
		} else {
			strcat(text, argv[i]);
		}
	}
	assert_string_equal(text, expected);
	smd_argv_free(argv);
}

static void expect_cleanup(const char *runtime, const char *expected)
{
	char *text = smd_container_cleanup(smd_container_runtime_find(runtime), launch.name);

	assert_non_null(text);
	assert_string_equal(text, expected);
	free(text);
}

static void test_a_command(void **state)
{
	(void)state;
	expect("docker", &launch,
		"docker run --rm --name=summand-7-workerpool1-0 --network=host --ipc=host "
		"--volume=/jobs/one/code:/jobs/one/code "
		"--volume=/jobs/one/token:/jobs/one/token:ro --group-add=GROUP "
		"--workdir=/jobs/one/code --gpus=all --env=RANK "
		"--env=CUDA_VISIBLE_DEVICES --env=PATH=/opt/bin --env=DOCKER_KEY "
		"--entrypoint=python3 -- example.org/trainer:1 train.py");
	expect("podman", &launch,
		"podman run --rm --name=summand-7-workerpool1-0 --network=host --ipc=host "
		"--volume=/jobs/one/code:/jobs/one/code "
		"--volume=/jobs/one/token:/jobs/one/token:ro --group-add=GROUP "
		"--workdir=/jobs/one/code --device=nvidia.com/gpu=all --env=RANK "
		"--env=CUDA_VISIBLE_DEVICES --env=PATH=/opt/bin --env=DOCKER_KEY "
		"--preserve-fds=1 --env=SUMMAND_NOTIFY_FD=3 --entrypoint=python3 "
		"-- example.org/trainer:1 train.py");
	expect("apptainer", &launch,
		"apptainer exec --bind=/jobs/one/code --bind=/jobs/one/token:/jobs/one/token:ro "
		"--pwd=/jobs/one/code --nv docker://example.org/trainer:1 python3 train.py");
}

static void test_the_images_own_command(void **state)
{
	static const struct smd_environment none = {0};
	struct smd_launch request = launch;
	(void)state;
	request.has_command = 0;
	request.argv = command + 1;
	request.environment = &none;
	request.directory = NULL;
	request.nmounts = 0;
	expect("docker", &request,
		"docker run --rm --name=summand-7-workerpool1-0 --network=host --ipc=host "
		"--group-add=GROUP -- example.org/trainer:1 train.py");
	request.image = "/images/trainer.sif";
	expect("apptainer", &request, "apptainer run /images/trainer.sif train.py");
}

/* Each value reaches the container in one way: by the runtime's environment, or by its command
 * line. */
static void expect_environment(const char *runtime, const char *expected)
{
	struct smd_environment named;
	char text[256] = "";

	assert_int_equal(
		smd_container_environment(smd_container_runtime_find(runtime), &launch, &named), 0);
	for (size_t i = 0; i < named.count; i++) {
		strcat(text, named.variables[i].name);
		strcat(text, "=");
		strcat(text, named.variables[i].value);
		strcat(text, " ");
	}
	assert_string_equal(text, expected);
	free(named.variables);
}

static void test_variables_of_the_runtime(void **state)
{
	(void)state;
	expect_environment("podman", "RANK=3 CUDA_VISIBLE_DEVICES=2,3 DOCKER_KEY=secret ");
	expect_environment("docker", "RANK=3 CUDA_VISIBLE_DEVICES=2,3 DOCKER_KEY=secret ");
	expect_environment(
		"apptainer", "RANK=3 CUDA_VISIBLE_DEVICES=2,3 PATH=/opt/bin DOCKER_KEY=secret ");
}

static void test_what_is_left_is_removed(void **state)
{
	(void)state;
	expect_cleanup("podman", "podman rm --force --ignore summand-7-workerpool1-0");
	expect_cleanup("docker", "docker rm --force summand-7-workerpool1-0");
	expect_cleanup("apptainer", "");
	assert_null(smd_container_runtime_find("lxc"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_command),
		cmocka_unit_test(test_the_images_own_command),
		cmocka_unit_test(test_variables_of_the_runtime),
		cmocka_unit_test(test_what_is_left_is_removed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
