/* Launchers of ranks in commands: where one is run it is found, and where its name only stands it is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "orchestrator/frontend/vertex/rank_launcher.h"

#define WORDS_MAX 8

static const struct smd_rank_launcher *inside(const char *const *words)
{
	char *command[WORDS_MAX];
	struct smd_job_pool pool = {.command = command};

	while (words[pool.ncommand]) {
		command[pool.ncommand] = (char *)(uintptr_t)words[pool.ncommand];
		pool.ncommand++;
	}
	return smd_rank_launcher_inside(&pool);
}

static const struct smd_rank_launcher *in_line(const char *line)
{
	return inside((const char *const[]){"bash", "-c", line, NULL});
}

static void assert_found(const struct smd_rank_launcher *launcher, const char *name, const char *where)
{
	if (!launcher || strcmp(launcher->name, name) != 0) {
		fail_msg("%s: must find %s, got %s", where, name, launcher ? launcher->name : "none");
	}
}

static void lines_run_them(void **state)
{
	static const struct {
		const char *line;
		const char *name;
	} cases[] = {
		{"mpirun -n 4 prog", "mpirun"},
		{"cd /tmp && mpiexec.hydra -n 4 prog", "mpiexec.hydra"},
		{"FOO=1 BAR='a b' mpirun -n 4 prog", "mpirun"},
		{"make; exec /opt/mpi/bin/mpiexec -n 4 prog", "mpiexec"},
		{"echo | orterun prog", "orterun"},
		{"cd src && \\\n  mpirun prog", "mpirun"},
		{"# first\nset -e\nmpirun prog", "mpirun"},
		{"time -p nice -n 5 mpirun prog", "mpirun"},
		{"timeout 60 mpirun prog", "mpirun"},
		{"env A=1 mpirun prog", "mpirun"},
		{"if true; then mpirun prog; fi", "mpirun"},
		{"for i in 1 2; do mpirun prog; done", "mpirun"},
		{"(mpirun prog)", "mpirun"},
		{"x=$(mpirun prog)", "mpirun"},
		{"\"mpirun\" prog", "mpirun"},
		{"eval 'mpirun prog'", "mpirun"},
		{"cd x && bash -lc 'cd y && mpirun prog'", "mpirun"},
		{"sh -e -c \"srun prog\"", "srun"},
		{"cd x && horovodrun -np 4 python train.py", "horovodrun"},
		{"cd x && deepspeed train.py", "deepspeed"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_found(in_line(cases[i].line), cases[i].name, cases[i].line);
	}
}

static void lines_name_them(void **state)
{
	static const char *const lines[] = {"", "\\", "'", "python train.py", "which mpirun",
		"echo 'run mpirun; now'", "# mpirun prog", "echo \"mpirun\"", "cat mpirun.log",
		"./mpirun.sh", "MPI=mpirun python train.py", "python -c 'mpirun'",
		"rm -f mpirun && python train.py", "bash run.sh mpirun",
		"deepspeed --no_ssh --node_rank=1 train.py"};

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		const struct smd_rank_launcher *found = in_line(lines[i]);

		if (found) {
			fail_msg("%s: must find none, got %s", lines[i], found->name);
		}
	}
}

static void commands_run_them(void **state)
{
	(void)state;
	assert_found(inside((const char *const[]){"srun", "prog", NULL}), "srun", "srun");
	assert_found(inside((const char *const[]){"env", "A=1", "/usr/bin/mpirun", "prog", NULL}),
		"mpirun", "env");
	assert_found(inside((const char *const[]){"/bin/sh", "-exc", "cd x; mpirun y", NULL}),
		"mpirun", "sh -exc");
	assert_null(inside((const char *const[]){"python", "-c", "mpirun", NULL}));
	assert_null(inside((const char *const[]){"prog", "mpirun", NULL}));
	assert_null(inside((const char *const[]){NULL}));
}

/* A shell's shell's shell: it comes to an end. */
static void lines_in_lines(void **state)
{
	char line[4096] = "";

	(void)state;
	for (int i = 0; i < 100; i++) {
		strcat(line, "sh -c '");
	}
	assert_null(in_line(strcat(line, "mpirun")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_run_them),
		cmocka_unit_test(lines_name_them),
		cmocka_unit_test(commands_run_them),
		cmocka_unit_test(lines_in_lines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
