/* The rules of a StudySpec between fields, and between parameters. */
#include "orchestrator/frontend/vertex/study.h"

#include <math.h>
#include <string.h>

double smd_study_number(const struct smd_node *node)
{
	int64_t integer = 0;

	return node->type == SMD_NODE_REAL || smd_node_integer(node, &integer) ? node->number.real
									       : (double)integer;
}

int smd_study_is_number(const struct smd_node *node)
{
	int64_t integer;

	return node && (node->type == SMD_NODE_REAL || !smd_node_integer(node, &integer));
}

/* Trials compute with doubles. */
static void check_bound(struct smd_decoder *decoder, const struct smd_node *node, int is_integer)
{
	char got[SMD_NODE_TEXT_MAX];

	if (!smd_study_is_number(node)) {
		return;
	}
	smd_node_describe(node, got);
	if (!isfinite(smd_study_number(node))) {
		smd_error_at_value(decoder->diagnostics, node, "must be finite, got %s", got);
	} else if (is_integer && fabs(smd_study_number(node)) > SMD_STUDY_INTEGER_MAX) {
		smd_error_at_value(
			decoder->diagnostics, node, "must be from -2^53 to 2^53, got %s", got);
	}
}

static void check_range(struct smd_decoder *decoder, const struct smd_node *spec, int is_integer)
{
	const struct smd_node *min = smd_node_member(spec, "minValue");
	const struct smd_node *max = smd_node_member(spec, "maxValue");
	const struct smd_node *initial = smd_node_member(spec, "defaultValue");
	char got[SMD_NODE_TEXT_MAX];

	check_bound(decoder, min, is_integer);
	check_bound(decoder, max, is_integer);
	if (smd_study_is_number(min) && smd_study_is_number(max) && smd_study_is_number(initial) &&
		!(smd_study_number(initial) >= smd_study_number(min) &&
			smd_study_number(initial) <= smd_study_number(max))) {
		smd_node_describe(initial, got);
		smd_error_at_value(decoder->diagnostics, initial,
			"must be from minValue to maxValue, got %s", got);
	}

	if (smd_study_is_number(min) && smd_study_is_number(max) &&
		smd_study_number(min) > smd_study_number(max)) {
		smd_node_describe(max, got);
		smd_error_at_value(
			decoder->diagnostics, max, "must not be less than minValue, got %s", got);
	}
}

static int is_same(const struct smd_node *one, const struct smd_node *other)
{
	if (smd_study_is_number(one) && smd_study_is_number(other)) {
		return fabs(smd_study_number(one) - smd_study_number(other)) <= SMD_STUDY_MIN_GAP;
	}
	return one->type == SMD_NODE_STRING && other->type == SMD_NODE_STRING &&
	       strcmp(one->string, other->string) == 0;
}

static void check_default(
	struct smd_decoder *decoder, const struct smd_node *values, const struct smd_node *initial)
{
	const struct smd_node *node = values->first;
	char got[SMD_NODE_TEXT_MAX];

	while (initial && node && !is_same(node, initial)) {
		node = node->next;
	}
	if (initial && !node) {
		smd_node_describe(initial, got);
		smd_error_at_value(
			decoder->diagnostics, initial, "must be one of the values, got %s", got);
	}
}

static void check_values(struct smd_decoder *decoder, const struct smd_node *spec, int are_numbers)
{
	const struct smd_node *values = smd_node_member(spec, "values");
	char got[SMD_NODE_TEXT_MAX];

	if (!values || values->type != SMD_NODE_ARRAY) {
		return;
	}
	check_default(decoder, values, smd_node_member(spec, "defaultValue"));
	for (const struct smd_node *node = values->first; are_numbers && node; node = node->next) {
		check_bound(decoder, node, 0);
	}
	for (const struct smd_node *node = values->first; are_numbers && node && node->next;
		node = node->next) {
		if (smd_study_is_number(node) && smd_study_is_number(node->next) &&
			smd_study_number(node->next) - smd_study_number(node) < SMD_STUDY_MIN_GAP) {
			smd_node_describe(node->next, got);
			smd_error_at_value(decoder->diagnostics, node->next,
				"must be greater than the value before by 1e-10, got %s", got);
		}
	}
}

static void check_parameter(struct smd_decoder *decoder, const struct smd_node *node, int is_grid);

/* A parameter that there is only where its parent has one of some values. */
static void check_conditional(struct smd_decoder *decoder, const struct smd_node *node,
	const struct smd_node *parent, int is_grid)
{
	const struct smd_node *parameter_spec = smd_node_member(node, "parameterSpec");
	int count = 0;

	for (size_t i = 0; i < SMD_STUDY_VALUES; i++) {
		const struct smd_node *condition =
			smd_study_parent_values[i]
				? smd_node_member(node, smd_study_parent_values[i])
				: NULL;

		count += condition != NULL;
		if (condition && !smd_node_member(parent, smd_study_value_specs[i])) {
			smd_error_at_name(decoder->diagnostics, condition,
				"is for a parent with %s", smd_study_value_specs[i]);
		}
	}
	if (count != 1 && node->type == SMD_NODE_OBJECT) {
		smd_error_at_value(decoder->diagnostics, node,
			"must have one of parentIntValues, parentCategoricalValues and "
			"parentDiscreteValues, got %d",
			count);
	}
	if (parameter_spec) {
		check_parameter(decoder, parameter_spec, is_grid);
	}
}

static void check_scale(struct smd_decoder *decoder, const struct smd_node *node,
	const struct smd_node *const specs[SMD_STUDY_VALUES])
{
	const struct smd_node *scale = smd_node_member(node, "scaleType");
	const struct smd_node *spec = specs[0] ? specs[0] : specs[1];
	const struct smd_node *min = spec ? smd_node_member(spec, "minValue") : NULL;
	const struct smd_node *values = specs[3] ? smd_node_member(specs[3], "values") : NULL;
	char got[SMD_NODE_TEXT_MAX];

	if (values && values->type == SMD_NODE_ARRAY) {
		min = values->first;
	}
	if (!scale || scale->type != SMD_NODE_STRING) {
		return;
	}
	if (specs[2]) {
		smd_error_at_name(decoder->diagnostics, scale,
			"must not be given with categoricalValueSpec, which has no scale");
	}
	if (strstr(scale->string, "LOG") && smd_study_is_number(min) &&
		smd_study_number(min) <= 0) {
		smd_node_describe(min, got);
		smd_error_at_value(decoder->diagnostics, min, "must be above 0 with %s, got %s",
			scale->string, got);
	}
}

static void check_parameter(struct smd_decoder *decoder, const struct smd_node *node, int is_grid)
{
	const struct smd_node *conditionals = smd_node_member(node, "conditionalParameterSpecs");
	const struct smd_node *specs[SMD_STUDY_VALUES];
	int count = 0;

	for (size_t i = 0; i < SMD_STUDY_VALUES; i++) {
		specs[i] = smd_node_member(node, smd_study_value_specs[i]);
		count += specs[i] != NULL;
	}
	if (count != 1 && node->type == SMD_NODE_OBJECT) {
		smd_error_at_value(decoder->diagnostics, node,
			"must have one of doubleValueSpec, integerValueSpec, categoricalValueSpec "
			"and discreteValueSpec, got %d",
			count);
	}
	for (size_t i = 0; i < SMD_STUDY_VALUES; i++) {
		if (specs[i] && i < 2) {
			check_range(decoder, specs[i], i == 1);
		} else if (specs[i]) {
			check_values(decoder, specs[i], i == 3);
		}
	}
	if (is_grid && specs[0]) {
		smd_error_at_name(decoder->diagnostics, specs[0],
			"must not be used with GRID_SEARCH, whose grid would have no end");
	}
	check_scale(decoder, node, specs);
	for (const struct smd_node *child = conditionals ? conditionals->first : NULL; child;
		child = child->next) {
		check_conditional(decoder, child, node, is_grid);
	}
}

#define MEDIAN 1 /* its place among the names */

static void check_stopping(struct smd_decoder *decoder, const struct smd_node *study)
{
	static const char *const names[] = {"decayCurveStoppingSpec", "medianAutomatedStoppingSpec",
		"convexAutomatedStoppingSpec"};
	int count = 0;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const struct smd_node *spec = smd_node_member(study, names[i]);

		count += spec != NULL;
		if (spec && i != MEDIAN) {
			smd_warning_at_name(decoder->diagnostics, spec,
				"has no effect here: only medianAutomatedStoppingSpec ends trials "
				"early");
		}
		if (spec && count == 2) {
			smd_error_at_name(decoder->diagnostics, spec,
				"must be the only one of decayCurveStoppingSpec, "
				"medianAutomatedStoppingSpec and convexAutomatedStoppingSpec");
		}
	}
}

/* Ids of metrics or parameters differ. */
static void check_ids(struct smd_decoder *decoder, const struct smd_node *list, const char *name)
{
	char got[SMD_NODE_TEXT_MAX];

	for (const struct smd_node *node = list->first; node; node = node->next) {
		const struct smd_node *id = smd_node_member(node, name);

		if (!id || id->type != SMD_NODE_STRING) {
			continue;
		}
		smd_node_describe(id, got);
		for (const struct smd_node *other = list->first; other != node;
			other = other->next) {
			const struct smd_node *before = smd_node_member(other, name);

			if (before && before->type == SMD_NODE_STRING &&
				strcmp(before->string, id->string) == 0) {
				smd_error_at_value(decoder->diagnostics, id,
					"must be unique, but is the name of another one: %s", got);
				break;
			}
		}
	}
}

static const struct smd_node *list_of(const struct smd_node *study, const char *name)
{
	const struct smd_node *list = smd_node_member(study, name);

	/* A list that is too long has its error, and is not compared with itself. */
	return list && list->type == SMD_NODE_ARRAY && list->count <= SMD_STUDY_LIST_MAX ? list
											 : NULL;
}

void smd_study_check(struct smd_decoder *decoder, const struct smd_node *study)
{
	const struct smd_node *metrics = list_of(study, "metrics");
	const struct smd_node *parameters = list_of(study, "parameters");
	const struct smd_node *algorithm = smd_node_member(study, "algorithm");
	int is_grid = algorithm && algorithm->type == SMD_NODE_STRING &&
		      strcmp(algorithm->string, "GRID_SEARCH") == 0;

	check_stopping(decoder, study);
	if (metrics) {
		check_ids(decoder, metrics, "metricId");
	}
	if (parameters) {
		check_ids(decoder, parameters, "parameterId");
		for (const struct smd_node *node = parameters->first; node; node = node->next) {
			check_parameter(decoder, node, is_grid);
		}
	}
}
