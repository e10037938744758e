/* Reads orders, and reads and writes tokens of pages: an array of JSON in hexadecimal digits, which
 * needs no escape in a URL. */
#include "orchestrator/service/page_token.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "reduction_server/base/parse.h"

#define BLANKS     " \t"
#define NAMES      "createTime, startTime, endTime, updateTime, displayName or state"
#define TOKEN_MAX  8192
#define DIGITS     "0123456789abcdef"
#define BYTE_WIDTH 2

/* ---- orders ---- */

/* In either spelling: create_time is createTime. */
static int is_spelling(const char *name, const char *text)
{
	for (; *name && *text; name++, text++) {
		if (*text == '_' && *name >= 'A' && *name <= 'Z') {
			text++;
			if (*text != *name - 'A' + 'a') {
				return 0;
			}
		} else if (*text != *name) {
			return 0;
		}
	}
	return *name == *text;
}

static int find_key(const char *text, enum smd_store_key *out)
{
	static const char *const names[] = {
#define X(constant, name, member) [SMD_STORE_BY_##constant] = name,
		SMD_STORE_KEYS(X)
#undef X
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (is_spelling(names[i], text)) {
			*out = (enum smd_store_key)i;
			return 0;
		}
	}
	return -EINVAL;
}

static int has_key(const struct smd_store_order *order, enum smd_store_key key)
{
	for (size_t i = 0; i < order->count; i++) {
		if (order->keys[i].key == key) {
			return 1;
		}
	}
	return 0;
}

/* "create_time desc" */
static int take_key(struct smd_store_order *order, char *text)
{
	char *rest = text + strspn(text, BLANKS);
	const char *name = strsep(&rest, BLANKS);
	const char *direction = "asc";
	struct smd_store_order_key *key = &order->keys[order->count];

	if (rest) {
		rest += strspn(rest, BLANKS);
		if (*rest) {
			direction = strsep(&rest, BLANKS);
		}
	}
	if ((rest && rest[strspn(rest, BLANKS)]) || find_key(name, &key->key) ||
		has_key(order, key->key) ||
		(strcasecmp(direction, "asc") != 0 && strcasecmp(direction, "desc") != 0)) {
		return -EINVAL;
	}
	key->is_descending = strcasecmp(direction, "desc") == 0;
	order->count++;
	return 0;
}

int smd_order_parse(const char *text, struct smd_store_order *out, struct smd_error *error)
{
	char *copy = strdup(text);
	char *rest = copy;
	char *part;
	int ret = copy ? 0 : -ENOMEM;

	*out = (struct smd_store_order){.count = 0};
	if (copy && !copy[strspn(copy, BLANKS)]) {
		rest = NULL;
	}
	while (!ret && (part = strsep(&rest, ","))) {
		ret = take_key(out, part);
	}
	free(copy);
	if (ret == -EINVAL) {
		return smd_error_set(error, EINVAL,
			"must be " NAMES ", each once, with commas between, and desc behind one "
			"for the greatest first, got \"%.64s\"",
			text);
	}
	if (!ret && !has_key(out, SMD_STORE_BY_CREATE_TIME)) {
		out->keys[out->count++] = (struct smd_store_order_key){
			.key = SMD_STORE_BY_CREATE_TIME, .is_descending = 1};
	}
	return ret ? smd_error_set(error, -ret, "%s", strerror(-ret)) : 0;
}

/* ---- tokens ---- */

/* Bytes of hexadecimal digits, with a NUL behind. NULL: they are none, or out of memory. */
static char *read_digits(const char *token)
{
	size_t length = strlen(token);
	char *bytes = malloc(length / BYTE_WIDTH + 1);

	if (!bytes || length % BYTE_WIDTH || length > TOKEN_MAX ||
		token[strspn(token, DIGITS)]) {
		free(bytes);
		return NULL;
	}
	for (size_t i = 0; i < length / BYTE_WIDTH; i++) {
		const char digits[] = {token[BYTE_WIDTH * i], token[BYTE_WIDTH * i + 1], '\0'};

		bytes[i] = (char)strtoul(digits, NULL, 16);
	}
	bytes[length / BYTE_WIDTH] = '\0';
	return bytes;
}

static char *write_digits(const char *bytes)
{
	size_t length = strlen(bytes);
	char *token = malloc(BYTE_WIDTH * length + 1);

	for (size_t i = 0; token && i < length; i++) {
		token[BYTE_WIDTH * i] = DIGITS[(unsigned char)bytes[i] >> 4];
		token[BYTE_WIDTH * i + 1] = DIGITS[(unsigned char)bytes[i] & 15];
	}
	if (token) {
		token[BYTE_WIDTH * length] = '\0';
	}
	return token;
}

/* Names and directions: a token of another order means nothing. */
static void write_order(const struct smd_store_order *order, char text[4 * SMD_STORE_ORDER_MAX])
{
	size_t used = 0;

	*text = '\0';
	for (size_t i = 0; i < order->count; i++) {
		used += (size_t)sprintf(text + used, "%c%d",
			order->keys[i].is_descending ? '-' : '+', (int)order->keys[i].key);
	}
}

static int take_values(struct smd_page_token *position, const struct smd_store_order *order)
{
	char wanted[4 * SMD_STORE_ORDER_MAX];
	const char *text = json_string_value(json_array_get(position->values, 0));
	json_int_t id = json_integer_value(json_array_get(position->values, 1));

	write_order(order, wanted);
	if (!text || strcmp(text, wanted) != 0 || id <= 0 ||
		json_array_size(position->values) != order->count + 2) {
		return -EINVAL;
	}
	position->place.id = id;
	for (size_t i = 0; i < order->count; i++) {
		position->place.values[i] =
			json_string_value(json_array_get(position->values, i + 2));
		if (!position->place.values[i]) {
			return -EINVAL;
		}
	}
	return 0;
}

int smd_page_token_parse(
	const char *token, const struct smd_store_order *order, struct smd_page_token **out)
{
	char *text = read_digits(token);
	struct smd_page_token *position = calloc(1, sizeof(*position));
	int ret = -EINVAL;

	if (text && position) {
		position->values = json_loads(text, 0, NULL);
		ret = take_values(position, order);
	}
	free(text);
	if (ret) {
		smd_page_token_free(position);
		return ret;
	}
	*out = position;
	return 0;
}

void smd_page_token_free(struct smd_page_token *position)
{
	if (position) {
		json_decref(position->values);
		free(position);
	}
}

char *smd_page_token_write(const struct smd_store_order *order, const struct smd_stored_job *job)
{
	char wanted[4 * SMD_STORE_ORDER_MAX];
	json_t *values;
	char *text;
	char *token;

	write_order(order, wanted);
	values = json_pack("[s, I]", wanted, (json_int_t)job->id);
	for (size_t i = 0; i < order->count; i++) {
		json_array_append_new(
			values, json_string(smd_store_key_of(job, order->keys[i].key)));
	}
	text = values ? json_dumps(values, JSON_COMPACT) : NULL;
	token = text ? write_digits(text) : NULL;
	free(text);
	json_decref(values);
	return token;
}
