/* Decodes a StudySpec. */
#include "orchestrator/frontend/vertex/study.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIST_MAX         1000
#define ID_FORM          "^[^ \t\r\n]+$"
#define DISCRETE_MIN_GAP 1e-10
#define TUNED_BY         "trials are not chosen by this version, which runs the first one"

/* What these decoders take. */
#define NUMBER_TYPE "\"type\": \"number\""
#define INTEGER_TYPE                                                                               \
	"\"anyOf\": [{\"type\": \"integer\"}, {\"type\": \"string\", \"pattern\": "                \
	"\"^-?[0-9]+$\"}]"
#define NUMBER  "{" NUMBER_TYPE "}"
#define INTEGER "{" INTEGER_TYPE "}"
#define LIST_OF(type)                                                                              \
	"{\"type\": \"array\", \"minItems\": 1, \"maxItems\": 1000, \"items\": {" type "}}"
#define NUMBERS  LIST_OF(NUMBER_TYPE)
#define INTEGERS LIST_OF(INTEGER_TYPE)

static const char *const goals[] = {"MAXIMIZE", "MINIMIZE", "GOAL_TYPE_UNSPECIFIED", NULL};
static const char *const scales[] = {"UNIT_LINEAR_SCALE", "UNIT_LOG_SCALE",
	"UNIT_REVERSE_LOG_SCALE", "SCALE_TYPE_UNSPECIFIED", NULL};
static const char *const algorithms[] = {
	"ALGORITHM_UNSPECIFIED", "GRID_SEARCH", "RANDOM_SEARCH", NULL};
static const char *const noises[] = {"LOW", "HIGH", "OBSERVATION_NOISE_UNSPECIFIED", NULL};
static const char *const selections[] = {
	"LAST_MEASUREMENT", "BEST_MEASUREMENT", "MEASUREMENT_SELECTION_TYPE_UNSPECIFIED", NULL};

/* An int64, which may be a string. */
static void decode_integer(struct smd_decoder *decoder, const struct smd_field *field,
	const struct smd_node *node, void *base)
{
	char got[SMD_NODE_TEXT_MAX];
	int64_t number;

	(void)field;
	(void)base;
	if (smd_node_integer(node, &number)) {
		smd_node_describe(node, got);
		smd_error_at_value(
			decoder->diagnostics, node, "must be a whole number, got %s", got);
	}
}

static void decode_number(struct smd_decoder *decoder, const struct smd_field *field,
	const struct smd_node *node, void *base)
{
	(void)field;
	(void)base;
	if (node->type != SMD_NODE_INTEGER) {
		smd_decode_expects(decoder, node, SMD_NODE_REAL);
	}
}

static void decode_numbers(struct smd_decoder *decoder, const struct smd_field *field,
	const struct smd_node *node, void *base)
{
	if (!smd_decode_list(decoder, field, node)) {
		return;
	}
	for (const struct smd_node *child = node->first; child; child = child->next) {
		decode_number(decoder, field, child, base);
	}
}

static void decode_integers(struct smd_decoder *decoder, const struct smd_field *field,
	const struct smd_node *node, void *base)
{
	if (!smd_decode_list(decoder, field, node)) {
		return;
	}
	for (const struct smd_node *child = node->first; child; child = child->next) {
		decode_integer(decoder, field, child, base);
	}
}

static const struct smd_field safety_rows[] = {
	SMD_FIELD("safetyThreshold", decode_number, SMD_KEPT, .schema = NUMBER),
	SMD_FIELD("desiredMinSafeTrialsFraction", decode_number, SMD_KEPT, .schema = NUMBER),
};
static const struct smd_message safety = SMD_MESSAGE("SafetyMetricConfig", safety_rows);

static const struct smd_field metric_rows[] = {
	SMD_FIELD("metricId", smd_decode_string, SMD_KEPT, .required = 1, .form = ID_FORM,
		.example = "a name without white space"),
	SMD_FIELD("goal", smd_decode_enum, SMD_KEPT, .required = 1, .values = goals),
	SMD_FIELD(
		"safetyConfig", smd_decode_object, SMD_KEPT, .message = &safety, .note = TUNED_BY),
};
static const struct smd_message metric = SMD_MESSAGE("MetricSpec", metric_rows);

static const struct smd_field double_rows[] = {
	SMD_FIELD("minValue", decode_number, SMD_KEPT, .required = 1, .schema = NUMBER),
	SMD_FIELD("maxValue", decode_number, SMD_KEPT, .required = 1, .schema = NUMBER),
	SMD_FIELD("defaultValue", decode_number, SMD_KEPT, .schema = NUMBER),
};
static const struct smd_message double_value = SMD_MESSAGE("DoubleValueSpec", double_rows);

static const struct smd_field integer_rows[] = {
	SMD_FIELD("minValue", decode_integer, SMD_KEPT, .required = 1, .schema = INTEGER),
	SMD_FIELD("maxValue", decode_integer, SMD_KEPT, .required = 1, .schema = INTEGER),
	SMD_FIELD("defaultValue", decode_integer, SMD_KEPT, .schema = INTEGER),
};
static const struct smd_message integer_value = SMD_MESSAGE("IntegerValueSpec", integer_rows);

static const struct smd_field categorical_rows[] = {
	SMD_FIELD("values", smd_decode_strings, SMD_KEPT, .required = 1, .min = 1, .noun = "value"),
	SMD_FIELD("defaultValue", smd_decode_string, SMD_KEPT),
};
static const struct smd_message categorical_value =
	SMD_MESSAGE("CategoricalValueSpec", categorical_rows);

static const struct smd_field discrete_rows[] = {
	SMD_FIELD("values", decode_numbers, SMD_KEPT, .required = 1, .min = 1, .max = LIST_MAX,
		.noun = "values", .schema = NUMBERS),
	SMD_FIELD("defaultValue", decode_number, SMD_KEPT, .schema = NUMBER),
};
static const struct smd_message discrete_value = SMD_MESSAGE("DiscreteValueSpec", discrete_rows);

static const struct smd_field discrete_condition_rows[] = {
	SMD_FIELD("values", decode_numbers, SMD_KEPT, .required = 1, .min = 1, .max = LIST_MAX,
		.noun = "values", .schema = NUMBERS),
};
static const struct smd_message discrete_condition =
	SMD_MESSAGE("DiscreteValueCondition", discrete_condition_rows);

static const struct smd_field integer_condition_rows[] = {
	SMD_FIELD("values", decode_integers, SMD_KEPT, .required = 1, .min = 1, .max = LIST_MAX,
		.noun = "values", .schema = INTEGERS),
};
static const struct smd_message integer_condition =
	SMD_MESSAGE("IntValueCondition", integer_condition_rows);

static const struct smd_field categorical_condition_rows[] = {
	SMD_FIELD("values", smd_decode_strings, SMD_KEPT, .required = 1, .min = 1, .max = LIST_MAX,
		.noun = "values"),
};
static const struct smd_message categorical_condition =
	SMD_MESSAGE("CategoricalValueCondition", categorical_condition_rows);

static const struct smd_message parameter; /* conditions hold parameters again */

static const struct smd_field conditional_rows[] = {
	SMD_FIELD("parentDiscreteValues", smd_decode_object, SMD_KEPT,
		.message = &discrete_condition),
	SMD_FIELD("parentIntValues", smd_decode_object, SMD_KEPT, .message = &integer_condition),
	SMD_FIELD("parentCategoricalValues", smd_decode_object, SMD_KEPT,
		.message = &categorical_condition),
	SMD_FIELD(
		"parameterSpec", smd_decode_object, SMD_KEPT, .required = 1, .message = &parameter),
};
static const struct smd_message conditional =
	SMD_MESSAGE("ConditionalParameterSpec", conditional_rows,
		.rules = "{\"oneOf\": [{\"required\": [\"parentDiscreteValues\"]}, {\"required\": "
			 "[\"parentIntValues\"]}, {\"required\": [\"parentCategoricalValues\"]}]}");

static const struct smd_field parameter_rows[] = {
	SMD_FIELD("parameterId", smd_decode_string, SMD_KEPT, .required = 1, .form = ID_FORM,
		.example = "a name without white space"),
	SMD_FIELD("doubleValueSpec", smd_decode_object, SMD_KEPT, .message = &double_value),
	SMD_FIELD("integerValueSpec", smd_decode_object, SMD_KEPT, .message = &integer_value),
	SMD_FIELD(
		"categoricalValueSpec", smd_decode_object, SMD_KEPT, .message = &categorical_value),
	SMD_FIELD("discreteValueSpec", smd_decode_object, SMD_KEPT, .message = &discrete_value),
	SMD_FIELD("scaleType", smd_decode_enum, SMD_KEPT, .values = scales),
	SMD_FIELD(
		"conditionalParameterSpecs", smd_decode_objects, SMD_KEPT, .message = &conditional),
};
static const struct smd_message parameter = SMD_MESSAGE("ParameterSpec", parameter_rows,
	.rules = "{\"oneOf\": [{\"required\": [\"doubleValueSpec\"]}, {\"required\": "
		 "[\"integerValueSpec\"]}, {\"required\": [\"categoricalValueSpec\"]}, "
		 "{\"required\": [\"discreteValueSpec\"]}]}");

static const struct smd_field elapsed_rows[] = {
	SMD_FIELD("useElapsedDuration", smd_decode_boolean, SMD_KEPT),
};
static const struct smd_message elapsed = SMD_MESSAGE("AutomatedStoppingSpec", elapsed_rows);

static const struct smd_field convex_rows[] = {
	SMD_FIELD("maxStepCount", decode_integer, SMD_KEPT, .schema = INTEGER),
	SMD_FIELD("minStepCount", decode_integer, SMD_KEPT, .schema = INTEGER),
	SMD_FIELD("minMeasurementCount", decode_integer, SMD_KEPT, .schema = INTEGER),
	SMD_FIELD("learningRateParameterName", smd_decode_string, SMD_KEPT),
	SMD_FIELD("useElapsedDuration", smd_decode_boolean, SMD_KEPT),
	SMD_FIELD("updateAllStoppedTrials", smd_decode_boolean, SMD_KEPT),
};
static const struct smd_message convex = SMD_MESSAGE("ConvexAutomatedStoppingSpec", convex_rows);

static const struct smd_field runtime_rows[] = {
	SMD_FIELD("maxDuration", smd_decode_duration, SMD_KEPT),
	SMD_FIELD("endTime", smd_decode_string, SMD_KEPT,
		.form = "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]{1,9})?"
			"(Z|[+-][0-9]{2}:[0-9]{2})$",
		.example = "a time such as 2026-01-31T12:00:00Z"),
};
static const struct smd_message runtime = SMD_MESSAGE("StudyTimeConstraint", runtime_rows);

static const struct smd_field stopping_rows[] = {
	SMD_FIELD("shouldStopAsap", smd_decode_boolean, SMD_KEPT),
	SMD_FIELD("minimumRuntimeConstraint", smd_decode_object, SMD_KEPT, .message = &runtime),
	SMD_FIELD("maximumRuntimeConstraint", smd_decode_object, SMD_KEPT, .message = &runtime),
	SMD_FIELD("minNumTrials", smd_decode_count, SMD_KEPT),
	SMD_FIELD("maxNumTrials", smd_decode_count, SMD_KEPT),
	SMD_FIELD("maxNumTrialsNoProgress", smd_decode_count, SMD_KEPT),
	SMD_FIELD("maxDurationNoProgress", smd_decode_duration, SMD_KEPT),
};
static const struct smd_message stopping = SMD_MESSAGE("StudyStoppingConfig", stopping_rows);

static const struct smd_field transfer_rows[] = {
	SMD_FIELD("disableTransferLearning", smd_decode_boolean, SMD_KEPT),
	SMD_FIELD("priorStudyNames", smd_decode_strings, SMD_KEPT),
};
static const struct smd_message transfer = SMD_MESSAGE("TransferLearningConfig", transfer_rows);

/* At most one of the three stopping rules. */
#define BOTH(one, other)                                                                           \
	"{\"required\": [\"" one "\", \"" other "\"], \"properties\": {\"" one                     \
	"\": {\"type\": \"object\"}, \"" other "\": {\"type\": \"object\"}}}"
#define ONE_STOPPING                                                                               \
	"{\"not\": {\"anyOf\": [" BOTH("decayCurveStoppingSpec",                                   \
		"medianAutomatedStoppingSpec") ", " BOTH("decayCurveStoppingSpec",                 \
		"convexAutomatedStoppingSpec") ", " BOTH("medianAutomatedStoppingSpec",            \
		"convexAutomatedStoppingSpec") "]}}"

static const struct smd_field study_rows[] = {
	SMD_FIELD("metrics", smd_decode_objects, SMD_KEPT, .required = 1, .message = &metric,
		.min = 1, .max = LIST_MAX),
	SMD_FIELD("parameters", smd_decode_objects, SMD_KEPT, .required = 1, .message = &parameter,
		.min = 1, .max = LIST_MAX),
	SMD_FIELD("algorithm", smd_decode_enum, SMD_KEPT, .values = algorithms, .note = TUNED_BY),
	SMD_FIELD("decayCurveStoppingSpec", smd_decode_object, SMD_KEPT, .message = &elapsed,
		.note = TUNED_BY),
	SMD_FIELD("medianAutomatedStoppingSpec", smd_decode_object, SMD_KEPT, .message = &elapsed,
		.note = TUNED_BY),
	SMD_FIELD("convexAutomatedStoppingSpec", smd_decode_object, SMD_KEPT, .message = &convex,
		.note = TUNED_BY),
	SMD_FIELD(
		"observationNoise", smd_decode_enum, SMD_KEPT, .values = noises, .note = TUNED_BY),
	SMD_FIELD("measurementSelectionType", smd_decode_enum, SMD_KEPT, .values = selections,
		.note = TUNED_BY),
	SMD_FIELD("studyStoppingConfig", smd_decode_object, SMD_KEPT, .message = &stopping,
		.note = TUNED_BY),
	SMD_FIELD("transferLearningConfig", smd_decode_object, SMD_KEPT, .message = &transfer,
		.note = TUNED_BY),
};
const struct smd_message smd_study_spec =
	SMD_MESSAGE("StudySpec", study_rows, .rules = ONE_STOPPING);

static const char *const value_specs[] = {
	"doubleValueSpec", "integerValueSpec", "categoricalValueSpec", "discreteValueSpec"};

/* The conditions on a parent with each of these. */
static const char *const parent_values[] = {
	NULL, "parentIntValues", "parentCategoricalValues", "parentDiscreteValues"};

#define VALUE_SPECS (sizeof(value_specs) / sizeof(value_specs[0]))

/* Only numbers are asked. */
static double number_of(const struct smd_node *node)
{
	int64_t integer = 0;

	return node->type == SMD_NODE_REAL || smd_node_integer(node, &integer) ? node->number.real
									       : (double)integer;
}

static int is_number(const struct smd_node *node)
{
	int64_t integer;

	return node && (node->type == SMD_NODE_REAL || !smd_node_integer(node, &integer));
}

static void check_range(struct smd_decoder *decoder, const struct smd_node *spec)
{
	const struct smd_node *min = smd_node_member(spec, "minValue");
	const struct smd_node *max = smd_node_member(spec, "maxValue");
	char got[SMD_NODE_TEXT_MAX];

	if (is_number(min) && is_number(max) && number_of(min) > number_of(max)) {
		smd_node_describe(max, got);
		smd_error_at_value(
			decoder->diagnostics, max, "must not be less than minValue, got %s", got);
	}
}

static void check_values(struct smd_decoder *decoder, const struct smd_node *spec, int are_numbers)
{
	const struct smd_node *values = smd_node_member(spec, "values");
	char got[SMD_NODE_TEXT_MAX];

	if (!values || values->type != SMD_NODE_ARRAY) {
		return;
	}
	for (const struct smd_node *node = values->first; are_numbers && node && node->next;
		node = node->next) {
		if (is_number(node) && is_number(node->next) &&
			number_of(node->next) - number_of(node) < DISCRETE_MIN_GAP) {
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

	for (size_t i = 0; i < VALUE_SPECS; i++) {
		const struct smd_node *condition =
			parent_values[i] ? smd_node_member(node, parent_values[i]) : NULL;

		count += condition != NULL;
		if (condition && !smd_node_member(parent, value_specs[i])) {
			smd_error_at_name(decoder->diagnostics, condition,
				"is for a parent with %s", value_specs[i]);
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
	const struct smd_node *const specs[VALUE_SPECS])
{
	const struct smd_node *scale = smd_node_member(node, "scaleType");
	const struct smd_node *spec = specs[0] ? specs[0] : specs[1];
	const struct smd_node *min = spec ? smd_node_member(spec, "minValue") : NULL;
	char got[SMD_NODE_TEXT_MAX];

	if (!scale || scale->type != SMD_NODE_STRING) {
		return;
	}
	if (specs[2]) {
		smd_error_at_name(decoder->diagnostics, scale,
			"must not be given with categoricalValueSpec, which has no scale");
	}
	if (strstr(scale->string, "LOG") && is_number(min) && number_of(min) <= 0) {
		smd_node_describe(min, got);
		smd_error_at_value(decoder->diagnostics, min, "must be above 0 with %s, got %s",
			scale->string, got);
	}
}

static void check_parameter(struct smd_decoder *decoder, const struct smd_node *node, int is_grid)
{
	const struct smd_node *conditionals = smd_node_member(node, "conditionalParameterSpecs");
	const struct smd_node *specs[VALUE_SPECS];
	int count = 0;

	for (size_t i = 0; i < VALUE_SPECS; i++) {
		specs[i] = smd_node_member(node, value_specs[i]);
		count += specs[i] != NULL;
	}
	if (count != 1 && node->type == SMD_NODE_OBJECT) {
		smd_error_at_value(decoder->diagnostics, node,
			"must have one of doubleValueSpec, integerValueSpec, categoricalValueSpec "
			"and discreteValueSpec, got %d",
			count);
	}
	for (size_t i = 0; i < VALUE_SPECS; i++) {
		if (specs[i] && i < 2) {
			check_range(decoder, specs[i]);
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

static void check_stopping(struct smd_decoder *decoder, const struct smd_node *study)
{
	static const char *const names[] = {"decayCurveStoppingSpec", "medianAutomatedStoppingSpec",
		"convexAutomatedStoppingSpec"};
	int count = 0;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const struct smd_node *spec = smd_node_member(study, names[i]);

		count += spec != NULL;
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
	return list && list->type == SMD_NODE_ARRAY && list->count <= LIST_MAX ? list : NULL;
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

/* The parameter's value in the first trial. */
static const struct smd_node *first_value(const struct smd_node *node)
{
	static const char *const names[] = {"defaultValue", "minValue", "values"};

	for (size_t i = 0; i < VALUE_SPECS; i++) {
		const struct smd_node *spec = smd_node_member(node, value_specs[i]);
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
	smd_node_describe(value, number);
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
	if (is_number(a) && is_number(b)) {
		double gap = number_of(a) - number_of(b);

		return gap <= DISCRETE_MIN_GAP && gap >= -DISCRETE_MIN_GAP;
	}
	return a->type == SMD_NODE_STRING && b->type == SMD_NODE_STRING &&
	       strcmp(a->string, b->string) == 0;
}

/* Whether a parameter is there where its parent has that value. */
static int is_active(const struct smd_node *conditional_spec, const struct smd_node *value)
{
	for (size_t i = 0; i < VALUE_SPECS; i++) {
		const struct smd_node *condition =
			parent_values[i] ? smd_node_member(conditional_spec, parent_values[i])
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
