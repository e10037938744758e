/* A replica's command line: the spec's command and args, the reduction server's program, or that of
 * a replica whose processes an mpirun starts. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/contract/contract.h"

#define REDUCTION_SERVER_PROGRAM "summand-reduction-server"
#define MPI_PROGRAM              "summand-mpi"
/* A reduction server: program, --listen, --token-file, --bandwidth, --share, --spare; a chief with an mpirun:
 * program, --processes, --launcher, launch, --. */
#define OWN_WORDS_MAX 6

static int expand(
	const struct smd_environment *environment, const char *word, int is_shell, char **out)
{
	char *referring = is_shell ? smd_environment_refer(environment, word) : NULL;
	int ret;

	if (is_shell && !referring) {
		return -ENOMEM;
	}
	ret = smd_environment_expand(
		environment, referring ? referring : word, SMD_STRING_SIZE_MAX - 1, out);
	free(referring);
	return ret;
}

static int append_expanded(char **argv, size_t *count, char *const *words, size_t nwords,
	int is_shell, const struct smd_environment *environment)
{
	for (size_t i = 0; i < nwords; i++) {
		int ret = expand(environment, words[i], is_shell, &argv[*count]);

		if (ret) {
			return ret;
		}
		*count += 1;
	}
	return 0;
}

static int append_option(char **argv, size_t *count, const char *name, const char *value)
{
	if (asprintf(&argv[*count], "--%s=%s", name, value) < 0) {
		argv[*count] = NULL;
		return -ENOMEM;
	}
	*count += 1;
	return 0;
}

static int append_word(char **argv, size_t *count, const char *word)
{
	argv[*count] = strdup(word);
	if (!argv[*count]) {
		return -ENOMEM;
	}
	*count += 1;
	return 0;
}

static int append_share(char **argv, size_t *count, const struct smd_placement *placement)
{
	char text[32];
	int ret;

	snprintf(text, sizeof(text), "%u/%u", placement->reducer_share.part,
		placement->reducer_share.whole);
	ret = append_option(argv, count, "share", text);
	return ret || !placement->spares_reducers ? ret : append_word(argv, count, "--spare");
}

/* The spec's own args come after these, and win. */
static int append_reduction_server(
	char **argv, size_t *count, const struct smd_placement *placement, int pool, int index)
{
	const char *token_file = smd_placement_token_file(placement, pool, index);
	unsigned bandwidth = smd_placement_server_bandwidth(placement, pool, index);
	unsigned parts = smd_placement_server_parts(placement, pool, index);
	char text[32];
	int ret;

	argv[0] = strdup(REDUCTION_SERVER_PROGRAM);
	if (!argv[0]) {
		return -ENOMEM;
	}
	*count = 1;
	ret = append_option(argv, count, "listen", placement->endpoints[pool][index]);
	if (!ret && token_file) {
		ret = append_option(argv, count, "token-file", token_file);
	}
	if (!ret && bandwidth > 0) {
		snprintf(text, sizeof(text), "%umbps", bandwidth);
		ret = append_option(argv, count, "bandwidth", text);
	} else if (!ret && parts > 1) {
		snprintf(text, sizeof(text), "1/%u", parts);
		ret = append_option(argv, count, "bandwidth", text);
	}
	if (!ret && smd_placement_is_reducer(placement, index)) {
		ret = append_share(argv, count, placement);
	}
	return ret;
}

/* The chief's, before its command. */
static int append_mpi_launch(char **argv, size_t *count, const struct smd_job *job)
{
	static const char *const launchers[] = {[SMD_MPI_CHOICE_ANY] = "any",
		[SMD_MPI_CHOICE_OPENMPI] = "openmpi",
		[SMD_MPI_CHOICE_MPICH] = "mpich"};
	static const char *const bindings[] = {[SMD_MPI_BINDING_NONE] = "none",
		[SMD_MPI_BINDING_CORE] = "core",
		[SMD_MPI_BINDING_NUMA] = "numa",
		[SMD_MPI_BINDING_SOCKET] = "socket"};
	char processes[16];
	int ret = append_word(argv, count, MPI_PROGRAM);

	snprintf(processes, sizeof(processes), "%d", job->processes_per_replica);
	ret = ret ? ret : append_option(argv, count, "processes", processes);
	if (!ret && job->mpi_binding != SMD_MPI_BINDING_NONE) {
		ret = append_option(argv, count, "binding", bindings[job->mpi_binding]);
	}
	if (!ret && job->has_own_mpirun) {
		ret = append_word(argv, count, "--is-launcher");
	} else if (!ret) {
		ret = append_option(argv, count, "launcher", launchers[job->mpi_choice]);
	}
	ret = ret ? ret : append_word(argv, count, "launch");
	return ret ? ret : append_word(argv, count, "--");
}

/* Any other replica's: it has no command of its own, but what mpirun starts there. */
static int append_mpi_node(char **argv, size_t *count, const char *endpoint)
{
	int ret = append_word(argv, count, MPI_PROGRAM);

	ret = ret ? ret : append_option(argv, count, "listen", endpoint);
	return ret ? ret : append_word(argv, count, "node");
}

int smd_contract_argv(const struct smd_contract *contract, int pool, int index,
	const struct smd_environment *environment, char ***out)
{
	const struct smd_job_pool *spec = &contract->job->pools[pool];
	char **argv = calloc(OWN_WORDS_MAX + spec->ncommand + spec->nargs + 1, sizeof(*argv));
	size_t count = 0;
	int has_command = 1;
	int has_args = 1;
	int ret = 0;

	if (!argv) {
		return -ENOMEM;
	}
	if (spec->role == SMD_ROLE_REDUCTION_SERVER) {
		ret = append_reduction_server(argv, &count, contract->placement, pool, index);
		has_command = 0;
	} else if (contract->job->launch == SMD_LAUNCH_MPIRUN && pool == 0) {
		ret = append_mpi_launch(argv, &count, contract->job);
	} else if (contract->job->launch == SMD_LAUNCH_MPIRUN && pool == 1) {
		ret = append_mpi_node(argv, &count, contract->placement->endpoints[pool][index]);
		has_command = has_args = 0;
	}
	if (!ret && has_command) {
		ret = append_expanded(argv, &count, spec->command, spec->ncommand,
			contract->job->has_shell_arguments, environment);
	}
	if (!ret && has_args) {
		ret = append_expanded(argv, &count, spec->args, spec->nargs,
			contract->job->has_shell_arguments, environment);
	}
	if (ret) {
		smd_argv_free(argv);
		return ret;
	}
	*out = argv;
	return 0;
}

void smd_argv_free(char **argv)
{
	for (size_t i = 0; argv && argv[i]; i++) {
		free(argv[i]);
	}
	free(argv);
}
