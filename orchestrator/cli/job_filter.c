/* Parses --filter, and applies it to jobs. */
#include "orchestrator/cli/job_filter.h"

#include <ctype.h>
#include <errno.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "orchestrator/cli/job_row.h"
#include "orchestrator/cli/key_path.h"

#define STATE_PREFIX "JOB_STATE_"
#define KEY_LABELS   "labels."

enum operator_kind {
	OPERATOR_EQUAL,
	OPERATOR_HAS,
	OPERATOR_MATCHES,
	OPERATOR_LESS,
	OPERATOR_LESS_EQUAL,
	OPERATOR_GREATER,
	OPERATOR_GREATER_EQUAL
};

struct term {
	char *key;
	char *value;
	enum operator_kind operator;
	int negated;
	int is_compiled;
	regex_t expression;
};

struct smd_job_filter {
	struct term *terms;
	size_t count;
	int is_any; /* OR between them, and not AND */
};

/* The longest first. */
static const struct {
	const char *text;
	enum operator_kind operator;
	int negated;
} operators[] = {
	{"!=", OPERATOR_EQUAL, 1},
	{"!~", OPERATOR_MATCHES, 1},
	{"<=", OPERATOR_LESS_EQUAL, 0},
	{">=", OPERATOR_GREATER_EQUAL, 0},
	{"=", OPERATOR_EQUAL, 0},
	{":", OPERATOR_HAS, 0},
	{"~", OPERATOR_MATCHES, 0},
	{"<", OPERATOR_LESS, 0},
	{">", OPERATOR_GREATER, 0},
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
static int normalise_time(struct term *term, struct smd_error *error)
{
	time_t before = seconds_before(term->value);
	struct tm parts = {0};
	char text[32];
	int is_day = strlen(term->value) == strlen("2026-01-31");
	const char *end;

	if (before) {
		time_t then = time(NULL) - before;

		gmtime_r(&then, &parts);
	} else {
		end = strptime(term->value, "%Y-%m-%d", &parts);
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
				term->key, term->value);
		}
	}
	strftime(text, sizeof(text),
		is_day && term->operator== OPERATOR_EQUAL ? "%Y-%m-%d" : "%Y-%m-%dT%H:%M:%S",
		&parts);
	free(term->value);
	term->value = strdup(text);
	return term->value ? 0 : smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
}

/* RUNNING is JOB_STATE_RUNNING. */
static int normalise_state(struct term *term, struct smd_error *error)
{
	size_t length = strlen(STATE_PREFIX);
	char *state;

	if (strncasecmp(term->value, STATE_PREFIX, length) == 0) {
		state = strdup(term->value);
	} else {
		state = malloc(length + strlen(term->value) + 1);
		if (state) {
			strcpy(state, STATE_PREFIX);
			strcpy(state + length, term->value);
		}
	}
	if (!state) {
		return smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
	}
	for (char *c = state; *c; c++) {
		*c = (char)toupper((unsigned char)*c);
	}
	free(term->value);
	term->value = state;
	return 0;
}

static int check_term(struct term *term, struct smd_error *error)
{
	int compares = term->operator>= OPERATOR_LESS;

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
	if (is_time(term->key) && (compares || term->operator== OPERATOR_EQUAL)) {
		return normalise_time(term, error);
	}
	if (term->operator== OPERATOR_EQUAL && strcmp(term->key, "state") == 0) {
		return normalise_state(term, error);
	}
	if (term->operator== OPERATOR_MATCHES) {
		if (regcomp(&term->expression, term->value, REG_EXTENDED | REG_NOSUB)) {
			return smd_error_set(error, EINVAL,
				"must have a regular expression after ~, got \"%s\"", term->value);
		}
		term->is_compiled = 1;
	}
	return 0;
}

static const char *skip_blanks(const char *text)
{
	return text + strspn(text, " \t");
}

/* A word before a term. */
static int take_word(const char **text, const char *word)
{
	size_t length = strlen(word);

	if (strncmp(*text, word, length) == 0 && isspace((unsigned char)(*text)[length])) {
		*text = skip_blanks(*text + length);
		return 1;
	}
	return 0;
}

static int take_operator(const char **text, struct term *term)
{
	*text = skip_blanks(*text);
	for (size_t i = 0; i < OPERATORS; i++) {
		size_t length = strlen(operators[i].text);

		if (strncmp(*text, operators[i].text, length) == 0) {
			term->operator= operators[i].operator;
			term->negated ^= operators[i].negated;
			*text = skip_blanks(*text + length);
			return 0;
		}
	}
	return -EINVAL;
}

/* Up to a blank, or in quotes. */
static char *take_value(const char **text)
{
	char quote = **text == '"' || **text == '\'' ? **text : '\0';
	const char *start = *text + (quote != '\0');
	size_t length = quote ? strcspn(start, quote == '"' ? "\"" : "'") : strcspn(start, " \t");

	if (quote && !start[length]) {
		return NULL;
	}
	*text = start + length + (quote != '\0');
	return strndup(start, length);
}

static int take_term(const char **text, struct term *term, struct smd_error *error)
{
	size_t length;

	term->negated = take_word(text, "NOT");
	if (**text == '-') {
		term->negated ^= 1;
		++*text;
	}
	length = strcspn(*text, " \t=!~:<>");
	term->key = strndup(*text, length);
	*text += length;
	if (!term->key || length == 0 || take_operator(text, term)) {
		return -EINVAL;
	}
	smd_key_path_respell(term->key);
	term->value = take_value(text);
	if (!term->value || (!*term->value && term->operator!= OPERATOR_EQUAL)) {
		return -EINVAL;
	}
	return check_term(term, error);
}

/* AND, OR or nothing before the next term. What binds closer is not the same in all of Google's
 * languages, so one of them is used alone. */
static int take_junction(struct smd_job_filter *filter, const char **text, struct smd_error *error)
{
	int is_or = filter->count > 0 && take_word(text, "OR");

	if (filter->count == 1) {
		filter->is_any = is_or;
	}
	if (is_or != filter->is_any || **text == '(') {
		return smd_error_set(error, EINVAL,
			"must be terms with AND between them, or with OR: both and parentheses are "
			"not known here; ~ takes a regular expression such as "
			"state~\"FAILED|CANCELLED\"");
	}
	if (filter->count > 0 && !is_or) {
		take_word(text, "AND");
	}
	return 0;
}

static int parse(struct smd_job_filter *filter, const char *text, struct smd_error *error)
{
	filter->terms = calloc(strlen(text) + 1, sizeof(*filter->terms));
	if (!filter->terms) {
		return -ENOMEM;
	}
	for (text = skip_blanks(text); *text; text = skip_blanks(text)) {
		int ret = take_junction(filter, &text, error);

		ret = ret ? ret : take_term(&text, &filter->terms[filter->count++], error);
		if (ret) {
			return ret;
		}
	}
	return filter->count > 0 ? 0 : -EINVAL;
}

int smd_job_filter_parse(const char *text, struct smd_job_filter **out, struct smd_error *error)
{
	struct smd_job_filter *filter = calloc(1, sizeof(*filter));
	int ret = filter ? parse(filter, text, error) : -ENOMEM;

	if (ret) {
		smd_job_filter_free(filter);
		return smd_error_set(error, -ret, "%s",
			ret == -ENOMEM ? strerror(ENOMEM)
				       : "must be KEY OPERATOR VALUE such as state=RUNNING, or "
					 "several with AND or OR between");
	}
	*out = filter;
	return 0;
}

void smd_job_filter_free(struct smd_job_filter *filter)
{
	if (!filter) {
		return;
	}
	for (size_t i = 0; i < filter->count; i++) {
		free(filter->terms[i].key);
		free(filter->terms[i].value);
		if (filter->terms[i].is_compiled) {
			regfree(&filter->terms[i].expression);
		}
	}
	free(filter->terms);
	free(filter);
}

/* "VALUE*" begins with it; else it is in it, as gcloud's words are. */
static int has(const char *text, const char *value)
{
	size_t length = strlen(value);

	if (value[length - 1] == '*') {
		return strncasecmp(text, value, length - 1) == 0;
	}
	return strcasestr(text, value) != NULL;
}

static int holds(const struct term *term, const char *text)
{
	/* A time that is given in seconds is compared with the seconds. */
	size_t length = is_time(term->key) ? strlen(term->value) : (size_t)-1;
	int order = strncmp(text, term->value, length);

	switch (term->operator) {
	case OPERATOR_EQUAL:
		return order == 0;
	case OPERATOR_HAS:
		return has(text, term->value);
	case OPERATOR_MATCHES:
		return regexec(&term->expression, text, 0, NULL, 0) == 0;
	case OPERATOR_LESS:
		return order < 0;
	case OPERATOR_LESS_EQUAL:
		return order <= 0;
	case OPERATOR_GREATER:
		return order > 0;
	case OPERATOR_GREATER_EQUAL:
		return order >= 0;
	}
	return 0;
}

/* A key that the job does not have: only the opposite of a term can hold. */
static int term_has(const struct term *term, const struct smd_stored_job *job)
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

int smd_job_filter_is_of_texts(const struct smd_job_filter *filter)
{
	for (size_t i = 0; filter && i < filter->count; i++) {
		if (!smd_job_row_is_text(filter->terms[i].key)) {
			return 0;
		}
	}
	return 1;
}

int smd_job_filter_has(const struct smd_job_filter *filter, const struct smd_stored_job *job)
{
	for (size_t i = 0; filter && i < filter->count; i++) {
		if (term_has(&filter->terms[i], job) == filter->is_any) {
			return filter->is_any;
		}
	}
	return !filter || !filter->is_any;
}
