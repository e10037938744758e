/* The command lines of the programs that run containers. */
#include "orchestrator/engine/local/container.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char *command[] = {(char[]){"python3"}, (char[]){"train.py"}, NULL};
static struct smd_variable variables[] = {
	{(char[]){"RANK"}, (char[]){"3"}}, {(char[]){"CUDA_VISIBLE_DEVICES"}, (char[]){"2,3"}}};
static const struct smd_environment environment = {.variables = variables, .count = 2};
static const struct smd_launch launch = {.argv = command,
	.environment = &environment,
	.image = "example.org/trainer:1",
	.has_command = 1,
	.name = "summand-7-workerpool1-0",
	.job_dir = "/jobs/one",
	.directory = "/jobs/one/code"};

static void expect(const char *runtime, const struct smd_launch *request, const char *expected)
{
	char **argv = smd_container_argv(smd_container_runtime_find(runtime), request);
	char text[1024] = "";

	assert_non_null(argv);
	for (size_t i = 0; argv[i]; i++) {
		strcat(text, i ? " " : "");
		strcat(text, argv[i]);
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
	expect("podman", &launch,
		"podman run --rm --name=summand-7-workerpool1-0 --network=host --ipc=host "
		"--volume=/jobs/one:/jobs/one --workdir=/jobs/one/code --device=nvidia.com/gpu=all "
		"--env=RANK=3 --env=CUDA_VISIBLE_DEVICES=2,3 --preserve-fds=1 "
		"--env=SUMMAND_NOTIFY_FD=3 --entrypoint=python3 -- example.org/trainer:1 train.py");
	expect("docker", &launch,
		"docker run --rm --name=summand-7-workerpool1-0 --network=host --ipc=host "
		"--volume=/jobs/one:/jobs/one --workdir=/jobs/one/code --gpus=all --env=RANK=3 "
		"--env=CUDA_VISIBLE_DEVICES=2,3 --entrypoint=python3 -- example.org/trainer:1 "
		"train.py");
	expect("apptainer", &launch,
		"apptainer exec --bind=/jobs/one --pwd=/jobs/one/code --nv "
		"docker://example.org/trainer:1 python3 train.py");
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
	expect("docker", &request,
		"docker run --rm --name=summand-7-workerpool1-0 --network=host --ipc=host "
		"--volume=/jobs/one:/jobs/one -- example.org/trainer:1 train.py");
	request.image = "/images/trainer.sif";
	expect("apptainer", &request,
		"apptainer run --bind=/jobs/one /images/trainer.sif train.py");
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
		cmocka_unit_test(test_what_is_left_is_removed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
