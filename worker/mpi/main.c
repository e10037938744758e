/* summand-mpi: the programs of an MPI job that runs over several replicas. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/options.h"
#include "worker/mpi/nested.h"
#include "worker/mpi/nodes.h"
#include "worker/mpi/verbs.h"

#define EXIT_USAGE    2
#define PROCESSES_MAX 65536
#define WAIT_S        600

int smd_mpi_fail(int exit_code, const struct smd_error *error)
{
	fprintf(stderr, SMD_MPI_PROGRAM ": %s: %s\n", smd_mpi_replica(), error->text);
	return exit_code;
}

static int set_launcher(void *target, const char *value, struct smd_error *error)
{
	static const char *const names[] = {
		[SMD_MPI_ANY] = "any", [SMD_MPI_OPENMPI] = "openmpi", [SMD_MPI_MPICH] = "mpich"};

	for (int i = 0; i <= SMD_MPI_MPICH; i++) {
		if (strcmp(value, names[i]) == 0) {
			*(int *)target = i;
			return 0;
		}
	}
	return smd_error_set(error, EINVAL, "must be any, openmpi or mpich");
}

static int set_binding(void *target, const char *value, struct smd_error *error)
{
	static const char *const names[] = {SMD_MPI_NOT_BOUND, "core", "numa", "socket"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(value, names[i]) == 0) {
			*(const char **)target = names[i];
			return 0;
		}
	}
	return smd_error_set(error, EINVAL, "must be none, core, numa or socket");
}

static int set_processes(void *target, const char *value, struct smd_error *error)
{
	int ret = smd_option_set_int(target, value, error);

	if (!ret && (*(int *)target < 1 || *(int *)target > PROCESSES_MAX)) {
		ret = smd_error_set(error, EINVAL, "must be 1 to %d", PROCESSES_MAX);
	}
	return ret;
}

/* The words after "--", which the parser of options does not see. */
static int find_command(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--") == 0) {
			return i + 1;
		}
	}
	return argc;
}

static int run(const char *verb, const struct smd_mpi_options *options, char **command,
	struct smd_error *error)
{
	int is_node = strcmp(verb, "node") == 0;

	if (is_node && (!options->listen || *command)) {
		smd_error_set(
			error, EINVAL, "summand-mpi node: must have --listen, and no command");
	} else if (is_node) {
		return smd_mpi_node(options);
	} else if (strcmp(verb, "launch") != 0 && strcmp(verb, "rank") != 0) {
		smd_error_set(
			error, EINVAL, "summand-mpi: must be launch, node or rank, got %s", verb);
	} else if (!*command) {
		smd_error_set(
			error, EINVAL, "summand-mpi %s: a command must follow --, got none", verb);
	} else {
		return strcmp(verb, "rank") == 0 ? smd_mpi_rank(command)
						 : smd_mpi_launch(options, command);
	}
	fprintf(stderr, "%s\n", error->text);
	return EXIT_USAGE;
}

int main(int argc, char **argv)
{
	struct smd_mpi_options values = {
		.processes = 1, .binding = SMD_MPI_NOT_BOUND, .wait_s = WAIT_S};
	const struct smd_option options[] = {
		SMD_OPTION_GROUP("launch: the chief"),
		{"launcher", "any|openmpi|mpich", "the MPI that starts the ranks (default any)",
			set_launcher, &values.launcher},
		{"processes", "N", "ranks of each replica (default 1)", set_processes,
			&values.processes},
		{"binding", "none|core|numa|socket", "what each rank is bound to (default none)",
			set_binding, &values.binding},
		{"is-launcher", NULL, "the command is mpirun, which starts the ranks itself",
			smd_option_set_bool, &values.is_launcher},
		{"wait", "SECONDS", "how long to wait for the other replicas (default 600)",
			smd_option_set_int, &values.wait_s},
		SMD_OPTION_GROUP("node: any other replica"),
		{"listen", "HOST:PORT", "the address where daemons are started from",
			smd_option_set_string, &values.listen},
	};
	const struct smd_command command = {
		.synopsis = "summand-mpi [OPTION...] launch|node|rank [-- COMMAND [ARG...]]",
		.summary = "Runs the replicas of a job as one MPI world.",
		.options = options,
		.noptions = sizeof(options) / sizeof(options[0]),
		.exits =
			"Exit codes: those of mpirun, of the failed rank of a node, of a rank's "
			"command; 1 a replica is lost or refused, 2 the command line is wrong, 127 "
			"no mpirun is there, 128 + N signal N ended it.",
	};
	const char *name = strrchr(argv[0], '/');
	struct smd_error error = {{0}};
	int start = find_command(argc, argv);
	int noperands = 0;
	int ret;

	if (strcmp(name ? name + 1 : argv[0], SMD_MPI_STARTER) == 0) {
		return smd_mpi_start(argv);
	}
	if (smd_mpi_nested_is(argv[0])) {
		return smd_mpi_nested_refuse(argv);
	}
	ret = smd_options_parse(
		&command, start < argc ? start - 1 : argc, argv, &noperands, &error);
	if (ret == -ENOEXEC) {
		return EXIT_SUCCESS;
	}
	if (ret == 0 && noperands != 1) {
		ret = smd_error_set(
			&error, EINVAL, "summand-mpi: must be told one of launch, node and rank");
	}
	if (ret) {
		fprintf(stderr, "%s\n", error.text);
		return EXIT_USAGE;
	}
	return run(argv[1], &values, argv + start, &error);
}
