/* The command lines of the programs that run containers. */
#include "worker/agent/host/container.h"
#include "worker/agent/host/pyxis.h"

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

static void expect_image(const char *image, const char *expected)
{
	char *name = smd_pyxis_image(image);

	assert_non_null(name);
	assert_string_equal(name, expected);
	free(name);
}

/* enroot divides registry and image by "#", and has digests in the place of tags. */
static void test_images_of_pyxis(void **state)
{
	(void)state;
	expect_image("ubuntu:24.04", "ubuntu:24.04");
	expect_image("nvidia/cuda:12", "nvidia/cuda:12");
	expect_image("nvcr.io/nvidia/pytorch:24.01-py3", "nvcr.io#nvidia/pytorch:24.01-py3");
	expect_image("docker://localhost:5000/a/b", "localhost:5000#a/b");
	expect_image("localhost/a", "localhost#a");
	expect_image("docker.io/library/ubuntu", "library/ubuntu");
	expect_image("me@nvcr.io#nvidia/pytorch:1", "me@nvcr.io#nvidia/pytorch:1");
	expect_image("gcr.io/a/b:1@sha256:abc", "gcr.io#a/b:sha256:abc");
	expect_image("ubuntu@sha256:abc", "ubuntu:sha256:abc");
	expect_image("/images/a.sqsh", "/images/a.sqsh");
	expect_image("./a.sqsh", "./a.sqsh");
}

static int prepare(const struct smd_launch *request, char ***argv, struct smd_error *error)
{
	char folder[] = "/tmp/summand-test-XXXXXX";
	const struct smd_pyxis_place place = {.program_dir = "/opt/bin", .prefix = "one"};
	char before[4096];
	int ret;

	assert_non_null(mkdtemp(folder));
	assert_non_null(getcwd(before, sizeof(before)));
	assert_int_equal(chdir(folder), 0);
	ret = smd_pyxis_prepare(request, &place, argv, error);
	unlink("one.command");
	assert_int_equal(chdir(before), 0);
	rmdir(folder);
	return ret;
}

static void test_a_step_of_pyxis(void **state)
{
	static const char *const expected[] = {"/opt/bin/summand-agent", "--container-step=one",
		"--", "srun", "--jobid=812", "--het-group=1", "--overlap", "--nodes=1", "--ntasks=1",
		"--nodelist=node7", "--mpi=none", "--cpu-bind=none", "--input=none", "--export=ALL",
		"--chdir=/", "--container-image=example.org#trainer:1", "--no-container-mount-home",
		"--no-container-entrypoint",
		"--container-mounts=/jobs/one/code:/jobs/one/code,"
		"/jobs/one/token:/jobs/one/token:ro",
		"--container-workdir=/jobs/one/code", "sh", "-c"};
	const size_t count = sizeof(expected) / sizeof(expected[0]);
	struct smd_error error = {""};
	char **argv;
	(void)state;
	setenv("SLURM_JOB_ID", "812", 1);
	setenv("SLURMD_NODENAME", "node7", 1);
	setenv("SUMMAND_SLURM_GROUP", "1", 1);
	assert_int_equal(prepare(&launch, &argv, &error), 0);
	for (size_t i = 0; i < count; i++) {
		assert_string_equal(argv[i], expected[i]);
	}
	assert_string_equal(argv[count + 1], "one");
	assert_null(argv[count + 2]);
	for (size_t i = 0; argv[i]; i++) {
		assert_null(strstr(argv[i], "secret"));
	}
	smd_argv_free(argv);
}

static void expect_refusal(const struct smd_launch *request, const char *text)
{
	struct smd_error error = {""};
	char **argv;

	assert_true(prepare(request, &argv, &error) < 0);
	assert_string_equal(error.text, text);
}

static void test_what_pyxis_cannot_do(void **state)
{
	static const struct smd_mount comma = {"/jobs/a,b", 1};
	static char name[] = "a.b";
	static struct smd_variable dotted = {name, name};
	static const struct smd_environment variables_of = {.variables = &dotted, .count = 1};
	struct smd_launch request = launch;
	(void)state;
	request.has_command = 0;
	expect_refusal(&request, "example.org/trainer:1: must come with a command: Pyxis does not run an "
				 "image's own entry point");
	request = launch;
	request.mounts = &comma;
	request.nmounts = 1;
	expect_refusal(&request, "/jobs/a,b: must have no white space and none of ,:\"'$`\\ in its path "
				 "to be mounted by Pyxis");
	request = launch;
	request.environment = &variables_of;
	expect_refusal(&request, "variable a.b: must have a name of letters, digits and _ in a container "
				 "of Pyxis");
	unsetenv("SLURM_JOB_ID");
	expect_refusal(&launch, "--container-runtime=pyxis: must run within a job of Slurm");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_command),
		cmocka_unit_test(test_the_images_own_command),
		cmocka_unit_test(test_variables_of_the_runtime),
		cmocka_unit_test(test_what_is_left_is_removed),
		cmocka_unit_test(test_images_of_pyxis),
		cmocka_unit_test(test_a_step_of_pyxis),
		cmocka_unit_test(test_what_pyxis_cannot_do),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
