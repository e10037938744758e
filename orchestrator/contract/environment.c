/* A process's variables in their order: the service's families first, then the spec's own. */
#include "orchestrator/contract/environment.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/contract/contract.h"

#define ANY        (1U << SMD_DISTRIBUTION_ANY)
#define PYTORCH    (1U << SMD_DISTRIBUTION_PYTORCH)
#define TENSORFLOW (1U << SMD_DISTRIBUTION_TENSORFLOW)
#define MPI        (1U << SMD_DISTRIBUTION_MPI)
#define ALL        (ANY | PYTORCH | TENSORFLOW | MPI)
#define NONE       0U

/* The families in the order of their variables, and which distributions have them on each platform.
 * MPI jobs get PyTorch's variables on Vertex AI too, because programs that read Open MPI's
 * variables often take their master from these; Azure has names of its own. */
static const struct {
	unsigned vertex;
	unsigned azureml;
	smd_family_prepare *prepare; /* or NULL */
	smd_family_add *add;         /* or NULL: others need what it prepares */
} families[] = {
	{ALL, ALL, smd_world_prepare, NULL},
	{ALL, TENSORFLOW, smd_spec_prepare, NULL},
	{ALL, NONE, smd_cluster_spec_prepare, smd_cluster_spec_add},
	{ANY | TENSORFLOW, TENSORFLOW, smd_tf_config_prepare, smd_tf_config_add},
	{ANY | PYTORCH | MPI, PYTORCH, NULL, smd_torch_add},
	{MPI, MPI, NULL, smd_mpi_add},
	{ALL, ALL, smd_output_prepare, NULL},
	{ALL, NONE, NULL, smd_vertex_add},
	{NONE, ALL, smd_azureml_prepare, smd_azureml_add},
	{ALL, ALL, smd_summand_prepare, smd_summand_add},
	{ALL, ALL, NULL, smd_nccl_add},
};

#define NFAMILIES (sizeof(families) / sizeof(families[0]))

static int job_has(const struct smd_job *job, size_t family)
{
	unsigned distributions = job->platform == SMD_PLATFORM_AZUREML ? families[family].azureml
								       : families[family].vertex;

	return distributions >> job->distribution & 1;
}

static size_t size_of_variable(const char *name, size_t length)
{
	return strlen(name) + sizeof("=") + length;
}

int smd_contract_fits(
	struct smd_contract *contract, const char *name, size_t length, const char *remedy)
{
	char *text;

	length = size_of_variable(name, length);
	if (length <= SMD_STRING_SIZE_MAX) {
		return 1;
	}
	if (contract->nwarnings < SMD_CONTRACT_WARNINGS_MAX &&
		asprintf(&text,
			"%s: must be at most %d bytes long on Linux, got %zu: it is left out; %s",
			name, SMD_STRING_SIZE_MAX, length, remedy) >= 0) {
		contract->warnings[contract->nwarnings++] = text;
	}
	return 0;
}

int smd_contract_fits_with_spec(struct smd_contract *contract, const char *name, size_t length)
{
	int is_spec_too_long = size_of_variable(name, length) <= SMD_STRING_SIZE_MAX;

	return smd_contract_fits(contract, name, length + strlen(contract->spec),
		is_spec_too_long ? SMD_NO_SPEC : SMD_FEWER_REPLICAS);
}

size_t smd_contract_warnings(const struct smd_contract *contract, char *const **out)
{
	*out = contract->warnings;
	return contract->nwarnings;
}

int smd_contract_create(
	const struct smd_job *job, const struct smd_placement *placement, struct smd_contract **out)
{
	struct smd_contract *contract = calloc(1, sizeof(*contract));
	int ret = contract ? 0 : -ENOMEM;

	if (ret) {
		return ret;
	}
	contract->job = job;
	contract->placement = placement;
	for (size_t i = 0; i < NFAMILIES && !ret; i++) {
		if (families[i].prepare && job_has(job, i)) {
			ret = families[i].prepare(contract);
		}
	}
	if (ret) {
		smd_contract_free(contract);
		return ret;
	}
	*out = contract;
	return 0;
}

void smd_contract_free(struct smd_contract *contract)
{
	if (!contract) {
		return;
	}
	free(contract->spec);
	free(contract->cluster);
	free(contract->tf_cluster);
	free(contract->master_host);
	for (size_t i = 0; i < contract->nwarnings; i++) {
		free(contract->warnings[i]);
	}
	free(contract->node_list);
	free(contract->host_list);
	free(contract->reduction_servers);
	free(contract->output_dir);
	free(contract);
}

static struct smd_variable *find(const struct smd_environment *environment, const char *name)
{
	for (size_t i = 0; i < environment->count; i++) {
		if (strcmp(environment->variables[i].name, name) == 0) {
			return &environment->variables[i];
		}
	}
	return NULL;
}

/* Takes over the value; frees it when it fails. */
static int take_value(struct smd_environment *environment, const char *name, char *value)
{
	struct smd_variable *variable = find(environment, name);
	struct smd_variable *variables;

	if (variable) {
		free(variable->value);
		variable->value = value;
		return 0;
	}
	variables = realloc(
		environment->variables, (environment->count + 1) * sizeof(*environment->variables));
	if (!variables) {
		goto free_value;
	}
	environment->variables = variables;
	variable = &variables[environment->count];
	variable->name = strdup(name);
	variable->value = value;
	if (!variable->name) {
		goto free_value;
	}
	environment->count++;
	return 0;
free_value:
	free(value);
	return -ENOMEM;
}

int smd_environment_set(
	struct smd_environment *environment, const char *name, const char *format, ...)
{
	va_list args;
	char *value;
	int length;

	va_start(args, format);
	length = vasprintf(&value, format, args);
	va_end(args);
	return length < 0 ? -ENOMEM : take_value(environment, name, value);
}

static int add_families(const struct smd_contract *contract, const struct smd_position *position,
	struct smd_environment *environment)
{
	int ret = 0;

	for (size_t i = 0; i < NFAMILIES && !ret; i++) {
		if (families[i].add && job_has(contract->job, i)) {
			ret = families[i].add(contract, position, environment);
		}
	}
	return ret;
}

/* Adds a variable of the spec, whose value may refer to all that were set before it. */
static int add_own(struct smd_environment *environment, const struct smd_variable *variable)
{
	size_t beside = size_of_variable(variable->name, 0);
	char *value;
	int ret = beside > SMD_STRING_SIZE_MAX
			  ? -E2BIG
			  : smd_environment_expand(environment, variable->value,
				    SMD_STRING_SIZE_MAX - beside, &value);

	return ret ? ret : take_value(environment, variable->name, value);
}

int smd_contract_environment(const struct smd_contract *contract, int pool, int index, int process,
	struct smd_environment *out)
{
	const struct smd_position position = {.pool = pool, .index = index, .process = process};
	const struct smd_job_pool *spec = &contract->job->pools[pool];
	const struct smd_job_pool *servers = &contract->job->pools[2];
	struct smd_environment environment = {
		.has_servers =
			servers->replica_count > 0 && servers->role == SMD_ROLE_REDUCTION_SERVER};
	int ret = add_families(contract, &position, &environment);

	for (size_t i = 0; i < spec->nenv && !ret; i++) {
		ret = add_own(&environment, &spec->env[i]);
	}
	if (ret) {
		smd_environment_free(&environment);
		return ret;
	}
	*out = environment;
	return 0;
}

static int find_overlong_words(const struct smd_environment *environment, char *const *words,
	size_t count, enum smd_spec_part part, void (*take)(void *, enum smd_spec_part, size_t),
	void *arg)
{
	int ret = 0;

	for (size_t i = 0; i < count && !ret; i++) {
		char *word = NULL;

		ret = smd_environment_expand(environment, words[i], SMD_STRING_SIZE_MAX - 1, &word);
		free(word);
		if (ret == -E2BIG) {
			take(arg, part, i);
			ret = 0;
		}
	}
	return ret;
}

/* A variable that is too long is left out, so that those that refer to it are not reported too. */
int smd_contract_find_overlong(const struct smd_contract *contract, int pool, int index,
	int process, void (*take)(void *arg, enum smd_spec_part part, size_t place), void *arg)
{
	const struct smd_position position = {.pool = pool, .index = index, .process = process};
	const struct smd_job_pool *spec = &contract->job->pools[pool];
	struct smd_environment environment = {0};
	int ret = add_families(contract, &position, &environment);

	for (size_t i = 0; i < spec->nenv && !ret; i++) {
		ret = add_own(&environment, &spec->env[i]);
		if (ret == -E2BIG) {
			take(arg, SMD_SPEC_ENV, i);
			ret = 0;
		}
	}
	ret = ret ? ret
		  : find_overlong_words(&environment, spec->command, spec->ncommand,
			    SMD_SPEC_COMMAND, take, arg);
	ret = ret ? ret
		  : find_overlong_words(
			    &environment, spec->args, spec->nargs, SMD_SPEC_ARGS, take, arg);
	smd_environment_free(&environment);
	return ret;
}

const char *smd_environment_get(const struct smd_environment *environment, const char *name)
{
	const struct smd_variable *variable = find(environment, name);

	return variable ? variable->value : NULL;
}

void smd_environment_free(struct smd_environment *environment)
{
	for (size_t i = 0; i < environment->count; i++) {
		free(environment->variables[i].name);
		free(environment->variables[i].value);
	}
	free(environment->variables);
	*environment = (struct smd_environment){0};
}
