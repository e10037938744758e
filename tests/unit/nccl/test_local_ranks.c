/* Which process started the ranks of a host, and how many it says there are. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "worker/nccl_plugin/collnet/local_ranks.h"

static const char *const names[] = {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
	"MPI_LOCALNRANKS", "MV2_COMM_WORLD_LOCAL_SIZE", "HOROVOD_LOCAL_SIZE",
	"SLURM_NTASKS_PER_NODE", "SLURM_STEP_TASKS_PER_NODE"};

#define NNAMES (sizeof(names) / sizeof(names[0]))

static char program[PATH_MAX]; /* this one */

static unsigned count_ranks(void)
{
	struct smd_local_ranks found;

	smd_local_ranks_find(&found);
	return found.count;
}

static void launchers_tell_how_many_ranks_a_host_has(void **state)
{
	(void)state;
	assert_int_equal(count_ranks(), 1);
	for (size_t i = 0; i < NNAMES; i++) {
		setenv(names[i], "8", 1);
		assert_int_equal(count_ranks(), 8);
		setenv(names[i], "4(x2),3", 1); /* as srun has it */
		assert_int_equal(count_ranks(), 4);
		setenv(names[i], "many", 1);
		assert_int_equal(count_ranks(), 1);
		setenv(names[i], "0", 1);
		assert_int_equal(count_ranks(), 1);
		unsetenv(names[i]);
	}
}

/* mpirun and torchrun may be steps of a Slurm job with so many of them. */
static void slurms_word_is_the_last(void **state)
{
	(void)state;
	setenv("SLURM_NTASKS_PER_NODE", "1", 1);
	setenv("LOCAL_WORLD_SIZE", "8", 1);
	assert_int_equal(count_ranks(), 8);
	unsetenv("LOCAL_WORLD_SIZE");
	unsetenv("SLURM_NTASKS_PER_NODE");
}

/* What a rank finds that is started with a variable, itself or by a shell that stays around it. */
static void start(const char *variable, bool in_shell, struct smd_local_ranks *out)
{
	int ends[2];
	pid_t pid;
	FILE *said;
	int launcher;

	assert_int_equal(pipe(ends), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		dup2(ends[1], STDOUT_FILENO);
		setenv(variable, "8", 1);
		if (in_shell) {
			execl("/bin/sh", "sh", "-c", "\"$0\" rank; exit $?", program, (char *)NULL);
		} else {
			execl(program, program, "rank", (char *)NULL);
		}
		_exit(1);
	}
	close(ends[1]);
	said = fdopen(ends[0], "r");
	assert_non_null(said);
	assert_int_equal(fscanf(said, "%u %d", &out->count, &launcher), 2);
	out->launcher = launcher;
	fclose(said);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void a_launcher_has_not_what_it_gives_to_ranks(void **state)
{
	struct smd_local_ranks found;

	(void)state;
	for (size_t i = 0; i < NNAMES; i++) {
		start(names[i], false, &found);
		assert_int_equal(found.count, 8);
		assert_int_equal(found.launcher, getpid());
	}
}

static void a_script_around_a_rank_is_no_launcher(void **state)
{
	struct smd_local_ranks found;

	(void)state;
	start("OMPI_COMM_WORLD_LOCAL_SIZE", true, &found);
	assert_int_equal(found.count, 8);
	assert_int_equal(found.launcher, getpid());
}

static void without_a_word_there_is_none(void **state)
{
	struct smd_local_ranks found;

	(void)state;
	start("SOMETHING_ELSE", false, &found);
	assert_int_equal(found.count, 1);
	assert_int_equal(found.launcher, 0);
}

static int print_launcher(void)
{
	struct smd_local_ranks found;

	smd_local_ranks_find(&found);
	printf("%u %d\n", found.count, (int)found.launcher);
	return 0;
}

/* Begun once more without the variables: this process is the launcher, and what it was started with
 * counts. */
static void begin_anew(void)
{
	for (size_t i = 0; i < NNAMES; i++) {
		unsetenv(names[i]);
	}
	execl(program, program, "tests", (char *)NULL);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(launchers_tell_how_many_ranks_a_host_has),
		cmocka_unit_test(slurms_word_is_the_last),
		cmocka_unit_test(a_launcher_has_not_what_it_gives_to_ranks),
		cmocka_unit_test(a_script_around_a_rank_is_no_launcher),
		cmocka_unit_test(without_a_word_there_is_none),
	};

	if (readlink("/proc/self/exe", program, sizeof(program) - 1) < 0 || argc < 2) {
		begin_anew();
		return 1;
	}
	return strcmp(argv[1], "rank") == 0 ? print_launcher()
					    : cmocka_run_group_tests(tests, NULL, NULL);
}
