/* The first trial of a study: the arguments that its parameters become. */
#include "orchestrator/frontend/vertex/study.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The parameter's value in the first trial. */
static const struct smd_node *first_value(const struct smd_node *node)
{
	static const char *const names[] = {"defaultValue", "minValue", "values"};

	for (size_t i = 0; i < SMD_STUDY_VALUES; i++) {
		const struct smd_node *spec = smd_node_member(node, smd_study_value_specs[i]);
		const struct smd_node *value = NULL;

		for (size_t n = 0; spec && !value && n < sizeof(names) / sizeof(names[0]); n++) {
			value = smd_node_member(spec, names[n]);
		}
		if (value) {
			return value->type == SMD_NODE_ARRAY ? value->first : value;
		}
	}
	return NULL;
}

static char *argument_of(const struct smd_node *node)
{
	const struct smd_node *id = smd_node_member(node, "parameterId");
	const struct smd_node *value = first_value(node);
	char number[SMD_NODE_TEXT_MAX];
	int64_t integer;
	char *text;

	if (!id || !value) {
		return NULL;
	}
	smd_node_value_text(value, number);
	if (value->type == SMD_NODE_REAL && smd_node_member(node, "integerValueSpec") &&
		!smd_node_integer(value, &integer)) {
		snprintf(number, sizeof(number), "%" PRId64, integer); /* of 1.0 too */
	}
	if (asprintf(&text, "--%s=%s", id->string,
		    value->type == SMD_NODE_STRING ? value->string : number) < 0) {
		return NULL;
	}
	return text;
}

static int is_equal(const struct smd_node *a, const struct smd_node *b)
{
	if (smd_study_is_number(a) && smd_study_is_number(b)) {
		double gap = smd_study_number(a) - smd_study_number(b);

		return gap <= SMD_STUDY_MIN_GAP && gap >= -SMD_STUDY_MIN_GAP;
	}
	return a->type == SMD_NODE_STRING && b->type == SMD_NODE_STRING &&
	       strcmp(a->string, b->string) == 0;
}

/* Whether a parameter is there where its parent has that value. */
static int is_active(const struct smd_node *conditional_spec, const struct smd_node *value)
{
	for (size_t i = 0; i < SMD_STUDY_VALUES; i++) {
		const struct smd_node *condition =
			smd_study_parent_values[i]
				? smd_node_member(conditional_spec, smd_study_parent_values[i])
				: NULL;
		const struct smd_node *values =
			condition ? smd_node_member(condition, "values") : NULL;

		for (const struct smd_node *one = values ? values->first : NULL; one;
			one = one->next) {
			if (is_equal(one, value)) {
				return 1;
			}
		}
	}
	return 0;
}

/* The parameter's argument, and those of the parameters that its value brings along. */
static int add_argument(struct smd_job_pool *pool, const struct smd_node *node)
{
	const struct smd_node *conditionals = smd_node_member(node, "conditionalParameterSpecs");
	char **args = realloc(pool->args, (pool->nargs + 1) * sizeof(*args));

	if (!args) {
		return -ENOMEM;
	}
	pool->args = args;
	args[pool->nargs] = argument_of(node);
	if (!args[pool->nargs++]) {
		return -ENOMEM;
	}
	for (const struct smd_node *child = conditionals ? conditionals->first : NULL; child;
		child = child->next) {
		if (is_active(child, first_value(node)) &&
			add_argument(pool, smd_node_member(child, "parameterSpec"))) {
			return -ENOMEM;
		}
	}
	return 0;
}

void smd_study_add_arguments(
	struct smd_decoder *decoder, const struct smd_node *study, struct smd_job *job)
{
	const struct smd_node *parameters = smd_node_member(study, "parameters");

	for (int i = 0; i < SMD_JOB_POOLS_MAX; i++) {
		struct smd_job_pool *pool = &job->pools[i];

		if (pool->replica_count == 0 || pool->role == SMD_ROLE_REDUCTION_SERVER) {
			continue;
		}
		for (const struct smd_node *node = parameters->first; node; node = node->next) {
			if (add_argument(pool, node)) {
				decoder->ret = -ENOMEM;
			}
		}
	}
}
