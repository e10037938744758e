/* Parses and applies one term of a filter. */
#include "orchestrator/cli/filter_term.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "orchestrator/cli/job_row.h"
#include "orchestrator/cli/key_path.h"

#define STATE_PREFIX "JOB_STATE_"
#define KEY_LABELS   "labels."
#define BLANKS       " \t"

/* The longest first. */
static const struct {
	const char *text;
	enum smd_filter_operator operator;
	int negated;
} operators[] = {
	{"!=", SMD_FILTER_EQUAL, 1},
	{"!~", SMD_FILTER_MATCHES, 1},
	{"<=", SMD_FILTER_LESS_EQUAL, 0},
	{">=", SMD_FILTER_GREATER_EQUAL, 0},
	{"=", SMD_FILTER_EQUAL, 0},
	{":", SMD_FILTER_HAS, 0},
	{"~", SMD_FILTER_MATCHES, 0},
	{"<", SMD_FILTER_LESS, 0},
	{">", SMD_FILTER_GREATER, 0},
};

#define OPERATORS (sizeof(operators) / sizeof(operators[0]))

static int is_key(const char *key)
{
	if (strncmp(key, KEY_LABELS, strlen(KEY_LABELS)) == 0) {
		return key[strlen(KEY_LABELS)] != '\0';
	}
	return smd_job_row_is_key(key) && strcmp(key, "labels") != 0;
}

static int is_time(const char *key)
{
	const char *end = strstr(key, "Time");

	return end && !end[4];
}

/* An ISO 8601 duration before now, such as -P1DT2H; 0: the text is none. */
static time_t seconds_before(const char *text)
{
	static const struct {
		char letter;
		int in_time;
		time_t seconds;
	} units[] = {{'W', 0, 604800}, {'D', 0, 86400}, {'H', 1, 3600}, {'M', 1, 60}, {'S', 1, 1}};
	time_t sum = 0;
	int in_time = 0;

	if (text[0] != '-' || toupper((unsigned char)text[1]) != 'P') {
		return 0;
	}
	for (text += 2; *text;) {
		char *end;
		unsigned long number;
		size_t i = 0;

		if (toupper((unsigned char)*text) == 'T' && !in_time) {
			in_time = 1;
			text++;
		}
		if (!isdigit((unsigned char)*text)) {
			return 0;
		}
		number = strtoul(text, &end, 10);
		while (i < 5 && (units[i].letter != toupper((unsigned char)*end) ||
					units[i].in_time != in_time)) {
			i++;
		}
		if (i == 5 || number > 1000000) {
			return 0;
		}
		sum += (time_t)number * units[i].seconds;
		text = end + 1;
	}
	return sum;
}

/* Times of rows are UTC: "2026-01-31", "2026-01-31T12:00:00Z", or a duration before now. */
static int normalise_time(const struct smd_filter_term *term, char **value, struct smd_error *error)
{
	time_t before = seconds_before(*value);
	struct tm parts = {0};
	char text[32];
	int is_day = strlen(*value) == strlen("2026-01-31");
	const char *end;

	if (before) {
		time_t then = time(NULL) - before;

		gmtime_r(&then, &parts);
	} else {
		end = strptime(*value, "%Y-%m-%d", &parts);
		if (end && (*end == 'T' || *end == ' ')) {
			end = strptime(end + 1, "%H:%M:%S", &parts);
		}
		if (end && *end == '.') {
			end += 1 + strspn(end + 1, "0123456789");
		}
		if (!end || (*end && strcmp(end, "Z") != 0)) {
			return smd_error_set(error, EINVAL,
				"%s must be compared with a time in UTC such as 2026-01-31 or "
				"2026-01-31T12:00:00Z, or one before now such as -P1DT2H, and is "
				"with \"%s\"",
				term->key, *value);
		}
	}
	strftime(text, sizeof(text),
		is_day && term->operator== SMD_FILTER_EQUAL ? "%Y-%m-%d" : "%Y-%m-%dT%H:%M:%S",
		&parts);
	free(*value);
	*value = strdup(text);
	return *value ? 0 : smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
}

/* RUNNING is JOB_STATE_RUNNING. */
static int normalise_state(char **value, struct smd_error *error)
{
	size_t length = strlen(STATE_PREFIX);
	char *state;

	if (strncasecmp(*value, STATE_PREFIX, length) == 0) {
		state = strdup(*value);
	} else {
		state = malloc(length + strlen(*value) + 1);
		if (state) {
			strcpy(state, STATE_PREFIX);
			strcpy(state + length, *value);
		}
	}
	if (!state) {
		return smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
	}
	for (char *c = state; *c; c++) {
		*c = (char)toupper((unsigned char)*c);
	}
	free(*value);
	*value = state;
	return 0;
}

/* As the value is compared. */
static int normalise(const struct smd_filter_term *term, char **value, struct smd_error *error)
{
	int is_equal = term->operator== SMD_FILTER_EQUAL;

	if (is_time(term->key) && (term->operator>= SMD_FILTER_LESS || is_equal)) {
		return normalise_time(term, value, error);
	}
	if (is_equal && strcmp(term->key, "state") == 0) {
		return normalise_state(value, error);
	}
	return 0;
}

static int compile(struct smd_filter_term *term, struct smd_error *error)
{
	if (term->values[1]) {
		return smd_error_set(error, EINVAL,
			"~ takes one regular expression, such as state~\"FAILED|CANCELLED\"");
	}
	if (regcomp(&term->expression, term->values[0], REG_EXTENDED | REG_NOSUB)) {
		return smd_error_set(error, EINVAL,
			"must have a regular expression after ~, got \"%s\"", term->values[0]);
	}
	term->is_compiled = 1;
	return 0;
}

static int check(struct smd_filter_term *term, struct smd_error *error)
{
	int compares = term->operator>= SMD_FILTER_LESS;
	int ret = 0;

	if (!is_key(term->key)) {
		return smd_error_set(error, EINVAL,
			"must have terms of " SMD_JOB_ROW_KEYS " or labels.NAME; \"%s\" is none",
			term->key);
	}
	if (compares && !is_time(term->key)) {
		return smd_error_set(error, EINVAL,
			"< and > compare times, and %s is none; = : and ~ compare texts",
			term->key);
	}
	if (compares && term->values[1]) {
		return smd_error_set(error, EINVAL, "< and > compare with one time");
	}
	if (term->operator== SMD_FILTER_MATCHES) {
		return compile(term, error);
	}
	for (size_t i = 0; !ret && term->values[i]; i++) {
		ret = normalise(term, &term->values[i], error);
	}
	return ret;
}

static int take_operator(const char **text, struct smd_filter_term *term)
{
	*text += strspn(*text, BLANKS);
	for (size_t i = 0; i < OPERATORS; i++) {
		size_t length = strlen(operators[i].text);

		if (strncmp(*text, operators[i].text, length) == 0) {
			term->operator= operators[i].operator;
			term->negated ^= operators[i].negated;
			*text += length;
			*text += strspn(*text, BLANKS);
			return 0;
		}
	}
	return -EINVAL;
}

/* Up to one of `ends`, or in quotes. */
static char *take_value(const char **text, const char *ends)
{
	char quote = **text == '"' || **text == '\'' ? **text : '\0';
	const char *start = *text + (quote != '\0');
	size_t length = strcspn(start, quote == '"' ? "\"" : quote ? "'" : ends);

	if (quote && !start[length]) {
		return NULL;
	}
	*text = start + length + (quote != '\0');
	return strndup(start, length);
}

/* What is in parentheses, with blanks, commas or OR between. */
static int take_values(const char **text, char **values)
{
	size_t count = 0;

	for (++*text;;) {
		*text += strspn(*text, BLANKS ",");
		if (**text == ')') {
			++*text;
			return count ? 0 : -EINVAL;
		}
		values[count] = **text ? take_value(text, BLANKS ",()") : NULL;
		if (!values[count]) {
			return -EINVAL;
		}
		if (strcmp(values[count], "OR") == 0) {
			free(values[count]);
			values[count] = NULL;
		} else if (!*values[count++] && **text != ')' && !strchr(BLANKS ",", **text)) {
			return -EINVAL; /* a parenthesis where a value must be */
		}
	}
}

static int take_operand(struct smd_filter_term *term, const char **text)
{
	term->values = calloc(strlen(*text) + 2, sizeof(*term->values));
	if (!term->values) {
		return -ENOMEM;
	}
	if (**text == '(' && term->operator!= SMD_FILTER_MATCHES) {
		return take_values(text, term->values);
	}
	term->values[0] =
		take_value(text, term->operator== SMD_FILTER_MATCHES ? BLANKS : BLANKS ")");
	return term->values[0] && (*term->values[0] || term->operator== SMD_FILTER_EQUAL) ? 0
											  : -EINVAL;
}

int smd_filter_term_take(struct smd_filter_term *term, const char **text, struct smd_error *error)
{
	size_t length;
	int ret;

	*term = (struct smd_filter_term){.negated = **text == '-'};
	*text += term->negated;
	length = strcspn(*text, BLANKS "()=!~:<>");
	term->key = strndup(*text, length);
	*text += length;
	if (!term->key || length == 0 || take_operator(text, term)) {
		return term->key ? -EINVAL : -ENOMEM;
	}
	smd_key_path_respell(term->key);
	ret = take_operand(term, text);
	return ret ? ret : check(term, error);
}

void smd_filter_term_clear(struct smd_filter_term *term)
{
	for (size_t i = 0; term->values && term->values[i]; i++) {
		free(term->values[i]);
	}
	free(term->values);
	free(term->key);
	if (term->is_compiled) {
		regfree(&term->expression);
	}
	*term = (struct smd_filter_term){0};
}

/* "VALUE*" begins with it; else it is in it, as gcloud's words are. */
static int has(const char *text, const char *value)
{
	size_t length = strlen(value);

	if (length > 0 && value[length - 1] == '*') {
		return strncasecmp(text, value, length - 1) == 0;
	}
	return strcasestr(text, value) != NULL;
}

static int holds_value(const struct smd_filter_term *term, const char *value, const char *text)
{
	/* A time that is given in seconds is compared with the seconds. */
	size_t length = is_time(term->key) ? strlen(value) : (size_t)-1;
	int order = strncmp(text, value, length);

	switch (term->operator) {
	case SMD_FILTER_EQUAL:
		return order == 0;
	case SMD_FILTER_HAS:
		return has(text, value);
	case SMD_FILTER_MATCHES:
		return regexec(&term->expression, text, 0, NULL, 0) == 0;
	case SMD_FILTER_LESS:
		return order < 0;
	case SMD_FILTER_LESS_EQUAL:
		return order <= 0;
	case SMD_FILTER_GREATER:
		return order > 0;
	case SMD_FILTER_GREATER_EQUAL:
		return order >= 0;
	}
	return 0;
}

static int holds(const struct smd_filter_term *term, const char *text)
{
	for (size_t i = 0; term->values[i]; i++) {
		if (holds_value(term, term->values[i], text)) {
			return 1;
		}
	}
	return 0;
}

/* A key that the job does not have: only the opposite of a term can hold. */
int smd_filter_term_has(const struct smd_filter_term *term, const struct smd_stored_job *job)
{
	char buffer[SMD_STORE_NAME_SIZE];
	json_t *labels = NULL;
	const char *text;
	int result;

	if (strncmp(term->key, KEY_LABELS, strlen(KEY_LABELS)) == 0) {
		labels = json_loads(job->labels, 0, NULL);
		text = json_string_value(json_object_get(labels, term->key + strlen(KEY_LABELS)));
	} else {
		text = smd_job_row_text(job, term->key, buffer);
	}
	result = text && holds(term, text);
	json_decref(labels);
	return result != term->negated;
}

int smd_filter_term_is_of_texts(const struct smd_filter_term *term)
{
	return smd_job_row_is_text(term->key);
}
