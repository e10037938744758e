/* Writes JSON as YAML. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <yaml.h>

#include "orchestrator/cli/format.h"
#include "orchestrator/job/shown.h"
#include "reduction_server/base/printable.h"

static int emit_value(yaml_emitter_t *emitter, const json_t *json);

/* What YAML 1.2 or 1.1 takes for something else than a text, if it stood there plain. */
static int needs_quotes(const char *text)
{
	static const char *const words[] = {
		"", "~", "null", "true", "false", "yes", "no", "on", "off", "y", "n"};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcasecmp(text, words[i]) == 0) {
			return 1;
		}
	}
	return isdigit((unsigned char)*text) || strchr("+-.=<", *text) != NULL;
}

static int emit_scalar(yaml_emitter_t *emitter, const char *text, int is_string)
{
	yaml_scalar_style_t style = YAML_ANY_SCALAR_STYLE;
	yaml_event_t event;
	size_t length;

	if (smd_unprintable(text, &length)) {
		style = YAML_DOUBLE_QUOTED_SCALAR_STYLE; /* has escapes */
	} else if (strchr(text, '\n')) {
		style = YAML_LITERAL_SCALAR_STYLE; /* or quoted, where it cannot be one */
	} else if (is_string && needs_quotes(text)) {
		style = YAML_SINGLE_QUOTED_SCALAR_STYLE;
	}
	if (!yaml_scalar_event_initialize(&event, NULL, NULL, (const yaml_char_t *)text,
		    (int)strlen(text), 1, 1, style)) {
		return -ENOMEM;
	}
	return yaml_emitter_emit(emitter, &event) ? 0 : -ENOMEM;
}

static int emit_object(yaml_emitter_t *emitter, const json_t *json)
{
	yaml_event_t event;
	const char *key;
	json_t *value;
	int ret = 0;

	if (!yaml_mapping_start_event_initialize(&event, NULL, NULL, 1, YAML_ANY_MAPPING_STYLE) ||
		!yaml_emitter_emit(emitter, &event)) {
		return -ENOMEM;
	}
	json_object_foreach ((json_t *)json, key, value) {
		ret = ret ? ret : emit_scalar(emitter, key, 1);
		ret = ret ? ret : emit_value(emitter, value);
	}
	if (ret || !yaml_mapping_end_event_initialize(&event) ||
		!yaml_emitter_emit(emitter, &event)) {
		return -ENOMEM;
	}
	return 0;
}

static int emit_array(yaml_emitter_t *emitter, const json_t *json)
{
	yaml_event_t event;
	size_t index;
	json_t *value;
	int ret = 0;

	if (!yaml_sequence_start_event_initialize(&event, NULL, NULL, 1, YAML_ANY_SEQUENCE_STYLE) ||
		!yaml_emitter_emit(emitter, &event)) {
		return -ENOMEM;
	}
	json_array_foreach (json, index, value) {
		ret = ret ? ret : emit_value(emitter, value);
	}
	if (ret || !yaml_sequence_end_event_initialize(&event) ||
		!yaml_emitter_emit(emitter, &event)) {
		return -ENOMEM;
	}
	return 0;
}

static int emit_value(yaml_emitter_t *emitter, const json_t *json)
{
	char *text;
	int ret;

	if (json_is_object(json)) {
		return emit_object(emitter, json);
	}
	if (json_is_array(json)) {
		return emit_array(emitter, json);
	}
	if (json_is_string(json)) {
		return emit_scalar(emitter, json_string_value(json), 1);
	}
	text = json_dumps(json, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
	ret = text ? emit_scalar(emitter, text, 0) : -ENOMEM;
	free(text);
	return ret;
}

static int emit_document(const json_t *json, FILE *out)
{
	yaml_emitter_t emitter;
	yaml_event_t event;
	int ret = -ENOMEM;

	if (!yaml_emitter_initialize(&emitter)) {
		return -ENOMEM;
	}
	yaml_emitter_set_output_file(&emitter, out);
	yaml_emitter_set_unicode(&emitter, 1);
	yaml_emitter_set_width(&emitter, -1);
	if (yaml_stream_start_event_initialize(&event, YAML_UTF8_ENCODING) &&
		yaml_emitter_emit(&emitter, &event) &&
		yaml_document_start_event_initialize(&event, NULL, NULL, NULL, 1) &&
		yaml_emitter_emit(&emitter, &event) && !emit_value(&emitter, json) &&
		yaml_document_end_event_initialize(&event, 1) &&
		yaml_emitter_emit(&emitter, &event) && yaml_stream_end_event_initialize(&event) &&
		yaml_emitter_emit(&emitter, &event)) {
		ret = 0;
	}
	yaml_emitter_delete(&emitter);
	return ret;
}

/* The emitter leaves some characters as they are that steer a terminal; where they stand, an escape
 * means the same. */
int smd_yaml_print(const json_t *json, FILE *out)
{
	char *text = NULL;
	char *escaped = NULL;
	size_t length;
	FILE *file = open_memstream(&text, &length);
	int ret = file ? emit_document(json, file) : -ENOMEM;

	ret = file && fclose(file) && !ret ? -ENOMEM : ret;
	if (!ret) {
		escaped = smd_shown_escape(text);
		ret = escaped ? 0 : -ENOMEM;
	}
	fputs(escaped ? escaped : "", out);
	free(escaped);
	free(text);
	return ret;
}
