/* Copies what is below some keys. */
#include "orchestrator/cli/projection.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* How far the walk is along a key. */
struct cursor {
	const struct smd_format_key *key;
	const char *rest;
};

static int project(const json_t *json, const struct cursor *cursors, size_t count, json_t **out);

static int copy(const json_t *json, const struct smd_transform *transform, json_t **out)
{
	char *text;

	if (!json_is_string(json) || transform->kind == SMD_TRANSFORM_NONE) {
		*out = json_deep_copy(json);
		return *out ? 0 : -ENOMEM;
	}
	text = strdup(json_string_value(json));
	if (text) {
		smd_transform_apply(transform, text);
		*out = json_string(text);
		free(text);
	}
	return text && *out ? 0 : -ENOMEM;
}

/* Those that name the field. */
static size_t enter_field(
	const struct cursor *cursors, size_t count, const char *name, struct cursor *inner)
{
	size_t length = strlen(name);
	size_t used = 0;

	for (size_t i = 0; i < count; i++) {
		const char *rest = cursors[i].rest + (*cursors[i].rest == '.');

		if (strcspn(rest, ".[") == length && strncmp(rest, name, length) == 0) {
			inner[used++] = (struct cursor){cursors[i].key, rest + length};
		}
	}
	return used;
}

/* Those that name the element, or all of them. */
static size_t enter_element(
	const struct cursor *cursors, size_t count, size_t index, struct cursor *inner)
{
	size_t used = 0;

	for (size_t i = 0; i < count; i++) {
		const char *rest = cursors[i].rest;

		if (*rest == '[' && (rest[1] == ']' || strtoul(rest + 1, NULL, 10) == index)) {
			inner[used++] = (struct cursor){cursors[i].key, strchr(rest, ']') + 1};
		}
	}
	return used;
}

static int project_object(const json_t *json, const struct cursor *cursors, size_t count,
	struct cursor *inner, json_t **out)
{
	json_t *object = json_object();
	const char *name;
	json_t *value;
	int ret = object ? 0 : -ENOMEM;

	json_object_foreach ((json_t *)json, name, value) {
		size_t used = enter_field(cursors, count, name, inner);
		json_t *part = NULL;

		ret = ret || used == 0 ? ret : project(value, inner, used, &part);
		if (!ret && part && json_object_set_new(object, name, part)) {
			ret = -ENOMEM;
		}
	}
	if (ret || json_object_size(object) == 0) {
		json_decref(object);
		return ret;
	}
	*out = object;
	return 0;
}

static int project_array(const json_t *json, const struct cursor *cursors, size_t count,
	struct cursor *inner, json_t **out)
{
	json_t *array = json_array();
	size_t length = 0; /* up to the last that has something */
	size_t index;
	json_t *value;
	int ret = array ? 0 : -ENOMEM;

	json_array_foreach (json, index, value) {
		size_t used = enter_element(cursors, count, index, inner);
		json_t *part = NULL;

		ret = ret || used == 0 ? ret : project(value, inner, used, &part);
		length = part ? index + 1 : length;
		if (!ret && json_array_append_new(array, part ? part : json_null())) {
			ret = -ENOMEM;
		}
	}
	while (!ret && json_array_size(array) > length) {
		json_array_remove(array, json_array_size(array) - 1);
	}
	if (ret || length == 0) {
		json_decref(array);
		return ret;
	}
	*out = array;
	return 0;
}

static int project(const json_t *json, const struct cursor *cursors, size_t count, json_t **out)
{
	struct cursor *inner;
	int ret = 0;

	for (size_t i = 0; i < count; i++) {
		if (!*cursors[i].rest) {
			return copy(json, &cursors[i].key->transform, out);
		}
	}
	inner = calloc(count, sizeof(*inner));
	if (!inner) {
		return -ENOMEM;
	}
	if (json_is_object(json)) {
		ret = project_object(json, cursors, count, inner, out);
	} else if (json_is_array(json)) {
		ret = project_array(json, cursors, count, inner, out);
	}
	free(inner);
	return ret;
}

static json_t *project_one(const json_t *resource, const struct cursor *cursors, size_t count)
{
	json_t *part = NULL;

	if (project(resource, cursors, count, &part)) {
		return NULL;
	}
	return part ? part : json_null();
}

static json_t *project_each(const json_t *list, const struct cursor *cursors, size_t count)
{
	json_t *parts = json_array();
	size_t index;
	json_t *resource;

	json_array_foreach (list, index, resource) {
		if (json_array_append_new(parts, project_one(resource, cursors, count))) {
			json_decref(parts);
			return NULL;
		}
	}
	return parts;
}

json_t *smd_project(const json_t *resource, const struct smd_format_keys *keys)
{
	struct cursor *cursors = calloc(keys->count, sizeof(*cursors));
	json_t *part;

	if (!cursors) {
		return NULL;
	}
	for (size_t i = 0; i < keys->count; i++) {
		cursors[i] = (struct cursor){&keys->keys[i], keys->keys[i].path};
	}
	part = json_is_array(resource) ? project_each(resource, cursors, keys->count)
				       : project_one(resource, cursors, keys->count);
	free(cursors);
	return part;
}
