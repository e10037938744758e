/* Makes the study of a StudySpec that is right: its parameters in one list, and numbers for what it
 * says in words. */
#include "orchestrator/frontend/vertex/study.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/job/study.h"

/* A study that grows, and the nodes of its parameters. */
struct model {
	struct smd_decoder *decoder;
	struct smd_study *study;
	const struct smd_node *nodes[SMD_STUDY_LIST_MAX];
};

static int is_text(const struct smd_node *node, const char *text)
{
	return node && node->type == SMD_NODE_STRING && strcmp(node->string, text) == 0;
}

static int is_true(const struct smd_node *object, const char *name)
{
	const struct smd_node *node = object ? smd_node_member(object, name) : NULL;

	return node && node->type == SMD_NODE_BOOLEAN && node->number.boolean;
}

static int count_of(const struct smd_node *object, const char *name)
{
	const struct smd_node *node = object ? smd_node_member(object, name) : NULL;
	int64_t count = 0;

	return node && !smd_node_integer(node, &count) ? (int)count : 0;
}

/* Has been checked; this one only wants the number. */
static int64_t seconds_of(
	struct smd_decoder *decoder, const struct smd_node *object, const char *name)
{
	const struct smd_node *node = object ? smd_node_member(object, name) : NULL;
	const struct smd_field field = {.name = name};
	int64_t seconds = 0;

	if (node) {
		smd_decode_duration(decoder, &field, node, &seconds);
	}
	return seconds;
}

/* A number or a text as a point has it; NAN: the parameter has no such value. */
static double place_of(const struct smd_parameter *parameter, const struct smd_node *value)
{
	if (parameter->kind <= SMD_PARAMETER_INTEGER) {
		return smd_study_is_number(value) ? smd_study_number(value) : NAN;
	}
	for (size_t i = 0; i < parameter->nvalues; i++) {
		if (parameter->kind == SMD_PARAMETER_CATEGORICAL
				? is_text(value, parameter->values[i])
				: smd_study_is_number(value) &&
					  fabs(smd_study_number(value) - parameter->numbers[i]) <=
						  SMD_STUDY_MIN_GAP) {
			return (double)i;
		}
	}
	return NAN;
}

static int take_values(struct smd_parameter *parameter, const struct smd_node *values)
{
	char number[SMD_NODE_TEXT_MAX];

	parameter->values = calloc(values->count + 1, sizeof(*parameter->values));
	parameter->numbers = calloc(values->count + 1, sizeof(*parameter->numbers));
	if (!parameter->values || !parameter->numbers) {
		return -ENOMEM;
	}
	for (const struct smd_node *node = values->first; node; node = node->next) {
		const char *text = node->string;

		if (node->type != SMD_NODE_STRING) {
			smd_node_value_text(node, number);
			text = number;
		}
		if (smd_study_is_number(node)) {
			parameter->numbers[parameter->nvalues] = smd_study_number(node);
		}
		parameter->values[parameter->nvalues] = strdup(text);
		if (!parameter->values[parameter->nvalues]) {
			return -ENOMEM;
		}
		parameter->nvalues++;
	}
	return 0;
}

static enum smd_scale scale_of(const struct smd_node *node)
{
	const struct smd_node *scale = smd_node_member(node, "scaleType");

	return is_text(scale, "UNIT_LOG_SCALE")           ? SMD_SCALE_LOG
	       : is_text(scale, "UNIT_REVERSE_LOG_SCALE") ? SMD_SCALE_REVERSE_LOG
							  : SMD_SCALE_LINEAR;
}

static int take_spec(struct smd_parameter *parameter, const struct smd_node *node)
{
	static const enum smd_parameter_kind kinds[SMD_STUDY_VALUES] = {SMD_PARAMETER_DOUBLE,
		SMD_PARAMETER_INTEGER, SMD_PARAMETER_CATEGORICAL, SMD_PARAMETER_DISCRETE};
	const struct smd_node *spec = NULL;
	const struct smd_node *initial;
	int ret = 0;

	for (size_t i = 0; i < SMD_STUDY_VALUES && !spec; i++) {
		spec = smd_node_member(node, smd_study_value_specs[i]);
		parameter->kind = kinds[i];
	}
	parameter->scale = scale_of(node);
	if (parameter->kind <= SMD_PARAMETER_INTEGER) {
		parameter->min = smd_study_number(smd_node_member(spec, "minValue"));
		parameter->max = smd_study_number(smd_node_member(spec, "maxValue"));
	} else {
		ret = take_values(parameter, smd_node_member(spec, "values"));
	}
	initial = smd_node_member(spec, "defaultValue");
	parameter->initial = initial && !ret ? place_of(parameter, initial) : NAN;
	return ret;
}

static int take_condition(struct smd_parameter *parameter, const struct smd_parameter *parent,
	const struct smd_node *conditional)
{
	const struct smd_node *values = NULL;

	for (size_t i = 0; i < SMD_STUDY_VALUES && !values; i++) {
		const struct smd_node *condition =
			smd_study_parent_values[i]
				? smd_node_member(conditional, smd_study_parent_values[i])
				: NULL;

		values = condition ? smd_node_member(condition, "values") : NULL;
	}
	parameter->when = calloc(values->count + 1, sizeof(*parameter->when));
	if (!parameter->when) {
		return -ENOMEM;
	}
	for (const struct smd_node *node = values->first; node; node = node->next) {
		parameter->when[parameter->nwhen++] = place_of(parent, node);
	}
	return 0;
}

static int share_a_value(const struct smd_parameter *one, const struct smd_parameter *other)
{
	for (size_t i = 0; i < one->nwhen; i++) {
		for (size_t n = 0; n < other->nwhen; n++) {
			if (one->when[i] == other->when[n]) {
				return 1;
			}
		}
	}
	return 0;
}

/* Two of one name are never there together: a program could not tell them apart. */
static void check_name(const struct model *model, size_t place)
{
	const struct smd_parameter *parameters = model->study->parameters;
	const struct smd_parameter *parameter = &parameters[place];

	for (size_t i = 0; i < place; i++) {
		if (strcmp(parameters[i].id, parameter->id) == 0 &&
			(parameters[i].parent != parameter->parent || parameter->parent < 0 ||
				share_a_value(&parameters[i], parameter))) {
			const struct smd_node *id =
				smd_node_member(model->nodes[place], "parameterId");
			char got[SMD_NODE_TEXT_MAX];

			smd_node_describe(id, got);
			smd_error_at_value(model->decoder->diagnostics, id,
				"must be unique, or of parameters of one parent for other values "
				"of "
				"it: %s",
				got);
			return;
		}
	}
}

/* The parameter behind its parent, and then its children. */
static int add_parameter(struct model *model, const struct smd_node *node, int parent,
	const struct smd_node *conditional)
{
	const struct smd_node *children = smd_node_member(node, "conditionalParameterSpecs");
	struct smd_study *study = model->study;
	size_t place = study->nparameters;
	struct smd_parameter *parameter = &study->parameters[place];
	int ret;

	if (place == SMD_STUDY_LIST_MAX) {
		smd_error_at_value(model->decoder->diagnostics, node,
			"a study must have at most %d parameters, with conditional ones",
			SMD_STUDY_LIST_MAX);
		return -E2BIG;
	}
	*parameter = (struct smd_parameter){.parent = parent,
		.initial = NAN,
		.id = strdup(smd_node_member(node, "parameterId")->string)};
	model->nodes[place] = node;
	study->nparameters++;
	ret = parameter->id ? take_spec(parameter, node) : -ENOMEM;
	if (!ret && conditional) {
		ret = take_condition(parameter, &study->parameters[parent], conditional);
	}
	if (!ret) {
		check_name(model, place);
	}
	for (const struct smd_node *child = children ? children->first : NULL; child && !ret;
		child = child->next) {
		ret = add_parameter(
			model, smd_node_member(child, "parameterSpec"), (int)place, child);
	}
	return ret;
}

static int take_metrics(struct smd_study *study, const struct smd_node *metrics)
{
	study->metrics = calloc(metrics->count + 1, sizeof(*study->metrics));
	if (!study->metrics) {
		return -ENOMEM;
	}
	for (const struct smd_node *node = metrics->first; node; node = node->next) {
		struct smd_metric *metric = &study->metrics[study->nmetrics];

		metric->is_minimised = is_text(smd_node_member(node, "goal"), "MINIMIZE");
		metric->id = strdup(smd_node_member(node, "metricId")->string);
		if (!metric->id) {
			return -ENOMEM;
		}
		study->nmetrics++;
	}
	return 0;
}

static void take_end(
	struct smd_decoder *decoder, struct smd_study_end *end, const struct smd_node *config)
{
	const struct smd_node *least = smd_node_member(config, "minimumRuntimeConstraint");
	const struct smd_node *most = smd_node_member(config, "maximumRuntimeConstraint");

	end->is_prompt = is_true(config, "shouldStopAsap");
	end->min_trials = count_of(config, "minNumTrials");
	end->max_trials = count_of(config, "maxNumTrials");
	end->max_trials_no_progress = count_of(config, "maxNumTrialsNoProgress");
	end->min_runtime_s = seconds_of(decoder, least, "maxDuration");
	end->max_runtime_s = seconds_of(decoder, most, "maxDuration");
	end->max_no_progress_s = seconds_of(decoder, config, "maxDurationNoProgress");
}

static void take_choices(struct model *model, const struct smd_node *node)
{
	const struct smd_node *algorithm = smd_node_member(node, "algorithm");
	const struct smd_node *noise = smd_node_member(node, "observationNoise");
	const struct smd_node *median = smd_node_member(node, "medianAutomatedStoppingSpec");
	const struct smd_node *config = smd_node_member(node, "studyStoppingConfig");
	struct smd_study *study = model->study;

	study->algorithm = is_text(algorithm, "GRID_SEARCH")     ? SMD_ALGORITHM_GRID
			   : is_text(algorithm, "RANDOM_SEARCH") ? SMD_ALGORITHM_RANDOM
								 : SMD_ALGORITHM_BAYESIAN;
	study->noise = is_text(noise, "LOW")    ? SMD_NOISE_LOW
		       : is_text(noise, "HIGH") ? SMD_NOISE_HIGH
						: SMD_NOISE_UNKNOWN;
	study->takes_best =
		is_text(smd_node_member(node, "measurementSelectionType"), "BEST_MEASUREMENT");
	study->stops_below_median = median != NULL;
	study->counts_elapsed = is_true(median, "useElapsedDuration");
	if (config) {
		take_end(model->decoder, &study->end, config);
	}
}

int smd_study_decode(
	struct smd_decoder *decoder, const struct smd_node *node, struct smd_study **out)
{
	const struct smd_node *parameters = smd_node_member(node, "parameters");
	struct model model = {.decoder = decoder, .study = calloc(1, sizeof(*model.study))};
	int ret = model.study ? 0 : -ENOMEM;

	if (ret) {
		return ret;
	}
	model.study->parameters = calloc(SMD_STUDY_LIST_MAX, sizeof(struct smd_parameter));
	ret = model.study->parameters ? take_metrics(model.study, smd_node_member(node, "metrics"))
				      : -ENOMEM;
	for (const struct smd_node *child = parameters->first; child && !ret; child = child->next) {
		ret = add_parameter(&model, child, -1, NULL);
	}
	if (ret) {
		smd_study_free(model.study);
		return ret == -E2BIG ? 0 : ret;
	}
	take_choices(&model, node);
	*out = model.study;
	return 0;
}
