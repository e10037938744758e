/* Frees studies, and says what the values of a point are. */
#include "orchestrator/job/study.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_SIZE 32

void smd_study_free(struct smd_study *study)
{
	if (!study) {
		return;
	}
	for (size_t i = 0; i < study->nmetrics; i++) {
		free(study->metrics[i].id);
	}
	for (size_t i = 0; i < study->nparameters; i++) {
		struct smd_parameter *parameter = &study->parameters[i];

		for (size_t n = 0; n < parameter->nvalues; n++) {
			free(parameter->values[n]);
		}
		free(parameter->id);
		free(parameter->values);
		free(parameter->numbers);
		free(parameter->when);
	}
	free(study->metrics);
	free(study->parameters);
	free(study);
}

int smd_parameter_is_active(const struct smd_study *study, size_t place, const double *point)
{
	const struct smd_parameter *parameter = &study->parameters[place];

	if (parameter->parent < 0) {
		return 1;
	}
	for (size_t i = 0; i < parameter->nwhen; i++) {
		if (point[parameter->parent] == parameter->when[i]) {
			return 1;
		}
	}
	return 0;
}

/* As few digits as bring the same number back; 2 is 2.0, so that programs which tell a number's type
 * by its form take it for what it is. */
static char *number_text(double value)
{
	char digits[NUMBER_SIZE];
	char *text;

	for (int n = 15; n <= 17; n++) {
		snprintf(digits, sizeof(digits), "%.*g", n, value);
		if (strtod(digits, NULL) == value) {
			break;
		}
	}
	return asprintf(&text, "%s%s", digits, strpbrk(digits, ".e") ? "" : ".0") < 0 ? NULL : text;
}

char *smd_parameter_text(const struct smd_parameter *parameter, double value)
{
	char *text;

	if (parameter->kind == SMD_PARAMETER_DOUBLE) {
		return number_text(value);
	}
	if (parameter->kind == SMD_PARAMETER_INTEGER) {
		return asprintf(&text, "%" PRId64, (int64_t)value) < 0 ? NULL : text;
	}
	return asprintf(&text, "%s", parameter->values[(size_t)value]) < 0 ? NULL : text;
}

json_t *smd_parameter_json(const struct smd_parameter *parameter, double value)
{
	switch (parameter->kind) {
	case SMD_PARAMETER_DOUBLE:
		return json_real(value);
	case SMD_PARAMETER_INTEGER:
		return json_integer((json_int_t)value);
	case SMD_PARAMETER_DISCRETE:
		return json_real(parameter->numbers[(size_t)value]);
	default:
		return json_string(parameter->values[(size_t)value]);
	}
}

void smd_study_first_point(const struct smd_study *study, double *point)
{
	for (size_t i = 0; i < study->nparameters; i++) {
		const struct smd_parameter *parameter = &study->parameters[i];

		if (!smd_parameter_is_active(study, i, point)) {
			point[i] = NAN;
		} else if (!isnan(parameter->initial)) {
			point[i] = parameter->initial;
		} else {
			point[i] = parameter->kind <= SMD_PARAMETER_INTEGER ? parameter->min : 0;
		}
	}
}
