/* Builds the documents of containers. */
#include "orchestrator/export/container.h"

#include <stdlib.h>
#include <string.h>

char *smd_export_escape(const char *text)
{
	char *escaped = malloc(2 * strlen(text) + 1);
	char *out = escaped;

	for (; escaped && *text; text++) {
		*out++ = *text;
		if (*text == '$') {
			*out++ = '$';
		}
	}
	if (escaped) {
		*out = '\0';
	}
	return escaped;
}

json_t *smd_export_string(const char *text)
{
	char *escaped = smd_export_escape(text);
	json_t *string = escaped ? json_string(escaped) : NULL;

	free(escaped);
	return string;
}

json_t *smd_export_literal(const struct smd_text *text)
{
	return smd_export_string(text->count ? text->parts[0].literal : "");
}

void smd_export_put(json_t *object, const char *key, json_t *value, int *failed)
{
	*failed |= !value || json_object_set_new(object, key, value);
}

void smd_export_append(json_t *array, json_t *value, int *failed)
{
	*failed |= !value || json_array_append_new(array, value);
}
