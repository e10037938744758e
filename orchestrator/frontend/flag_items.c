/* Parts the values of flags. */
#include "orchestrator/frontend/flag_items.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int out_of_memory(struct smd_flag_items *items, struct smd_error *error)
{
	smd_flag_items_free(items);
	return smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
}

/* "^:^..." -> ":", and *text moves behind it; else ",". Cuts the text in its place. */
static const char *take_delimiter(char **text)
{
	char *end = (*text)[0] == '^' ? strchr(*text + 1, '^') : NULL;
	const char *delimiter;

	if (!end || end == *text + 1) {
		return ",";
	}
	delimiter = *text + 1;
	*end = '\0';
	*text = end + 1;
	return delimiter;
}

static size_t count_items(const char *text, const char *delimiter)
{
	size_t count = 1;

	while ((text = strstr(text, delimiter))) {
		text += strlen(delimiter);
		count++;
	}
	return count;
}

int smd_flag_list(const char *value, struct smd_flag_items *out, struct smd_error *error)
{
	struct smd_flag_items items = {.text = strdup(value)};
	char *at = items.text;
	const char *delimiter;

	if (!at) {
		return out_of_memory(&items, error);
	}
	delimiter = take_delimiter(&at);
	if (*at) {
		items.values = calloc(count_items(at, delimiter), sizeof(*items.values));
		if (!items.values) {
			return out_of_memory(&items, error);
		}
	}
	for (char *next = *at ? at : NULL; next; at = next) {
		items.values[items.count++] = at;
		next = strstr(at, delimiter);
		if (next) {
			*next = '\0';
			next += strlen(delimiter);
		}
	}
	*out = items;
	return 0;
}

static int split_item(struct smd_flag_items *items, size_t index, struct smd_error *error)
{
	char *key = items->values[index];
	char *equals = strchr(key, '=');

	if (!equals || equals == key) {
		return smd_error_set(error, EINVAL, "Bad syntax for dict arg: [%s]. %s", key,
			items->count > 1 ? "A value with commas is written "
					   "^;^key=value;key=value, with any other character for "
					   "the semicolon."
					 : "It is written key=value,key=value.");
	}
	*equals = '\0';
	for (size_t i = 0; i < index; i++) {
		if (strcmp(items->keys[i], key) == 0) {
			return smd_error_set(error, EINVAL, "Key [%s] is given twice.", key);
		}
	}
	items->keys[index] = key;
	items->values[index] = equals + 1;
	return 0;
}

int smd_flag_dictionary(const char *value, struct smd_flag_items *out, struct smd_error *error)
{
	struct smd_flag_items items;
	int ret = smd_flag_list(value, &items, error);

	if (ret) {
		return ret;
	}
	items.keys = calloc(items.count + 1, sizeof(*items.keys));
	if (!items.keys) {
		return out_of_memory(&items, error);
	}
	for (size_t i = 0; i < items.count && !ret; i++) {
		ret = split_item(&items, i, error);
	}
	if (ret) {
		smd_flag_items_free(&items);
		return ret;
	}
	*out = items;
	return 0;
}

void smd_flag_items_free(struct smd_flag_items *items)
{
	free(items->keys);
	free(items->values);
	free(items->text);
	*items = (struct smd_flag_items){0};
}
