/* The tables of a StudySpec. */
#include "orchestrator/frontend/vertex/study.h"

#define ID_FORM "^[^ \t\r\n]+$"

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

/* In the order of the names, of which the last is for none. */
static const int two_numbers[] = {1, 2, 0};
static const int three_numbers[] = {1, 2, 3, 0};
static const int algorithm_numbers[] = {0, 2, 3};

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
	SMD_FIELD("goal", smd_decode_enum, SMD_KEPT, .required = 1, .values = goals,
		.numbers = two_numbers),
	SMD_FIELD("safetyConfig", smd_decode_object, SMD_KEPT, .message = &safety,
		.note = "trials are judged by their metric alone"),
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
	SMD_FIELD("values", decode_numbers, SMD_KEPT, .required = 1, .min = 1,
		.max = SMD_STUDY_LIST_MAX, .noun = "values", .schema = NUMBERS),
	SMD_FIELD("defaultValue", decode_number, SMD_KEPT, .schema = NUMBER),
};
static const struct smd_message discrete_value = SMD_MESSAGE("DiscreteValueSpec", discrete_rows);

static const struct smd_field discrete_condition_rows[] = {
	SMD_FIELD("values", decode_numbers, SMD_KEPT, .required = 1, .min = 1,
		.max = SMD_STUDY_LIST_MAX, .noun = "values", .schema = NUMBERS),
};
static const struct smd_message discrete_condition =
	SMD_MESSAGE("DiscreteValueCondition", discrete_condition_rows);

static const struct smd_field integer_condition_rows[] = {
	SMD_FIELD("values", decode_integers, SMD_KEPT, .required = 1, .min = 1,
		.max = SMD_STUDY_LIST_MAX, .noun = "values", .schema = INTEGERS),
};
static const struct smd_message integer_condition =
	SMD_MESSAGE("IntValueCondition", integer_condition_rows);

static const struct smd_field categorical_condition_rows[] = {
	SMD_FIELD("values", smd_decode_strings, SMD_KEPT, .required = 1, .min = 1,
		.max = SMD_STUDY_LIST_MAX, .noun = "values"),
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
	SMD_FIELD(
		"scaleType", smd_decode_enum, SMD_KEPT, .values = scales, .numbers = three_numbers),
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
		.example = "a time such as 2026-01-31T12:00:00Z",
		.note = "maxDuration is what counts here"),
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
		.min = 1, .max = SMD_STUDY_LIST_MAX),
	SMD_FIELD("parameters", smd_decode_objects, SMD_KEPT, .required = 1, .message = &parameter,
		.min = 1, .max = SMD_STUDY_LIST_MAX),
	SMD_FIELD("algorithm", smd_decode_enum, SMD_KEPT, .values = algorithms,
		.numbers = algorithm_numbers),
	SMD_FIELD("decayCurveStoppingSpec", smd_decode_object, SMD_KEPT, .message = &elapsed),
	SMD_FIELD("medianAutomatedStoppingSpec", smd_decode_object, SMD_KEPT, .message = &elapsed),
	SMD_FIELD("convexAutomatedStoppingSpec", smd_decode_object, SMD_KEPT, .message = &convex),
	SMD_FIELD("observationNoise", smd_decode_enum, SMD_KEPT, .values = noises,
		.numbers = two_numbers),
	SMD_FIELD("measurementSelectionType", smd_decode_enum, SMD_KEPT, .values = selections,
		.numbers = two_numbers),
	SMD_FIELD("studyStoppingConfig", smd_decode_object, SMD_KEPT, .message = &stopping),
	SMD_FIELD("transferLearningConfig", smd_decode_object, SMD_KEPT, .message = &transfer,
		.note = "no study learns from others"),
};
const struct smd_message smd_study_spec =
	SMD_MESSAGE("StudySpec", study_rows, .rules = ONE_STOPPING);

const char *const smd_study_value_specs[SMD_STUDY_VALUES] = {
	"doubleValueSpec", "integerValueSpec", "categoricalValueSpec", "discreteValueSpec"};

/* The conditions on a parent with each of these. */
const char *const smd_study_parent_values[SMD_STUDY_VALUES] = {
	NULL, "parentIntValues", "parentCategoricalValues", "parentDiscreteValues"};
