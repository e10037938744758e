/* Parses filters, and applies them. */
#include "orchestrator/service/filter.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "reduction_server/base/clock.h"

#define BLANKS     " \t\r\n"
#define LENGTH_MAX 8192
#define DEPTH_MAX  32
#define YEAR_MIN   1900
#define LABELS     "labels."

enum filter_kind { FILTER_IS, FILTER_NOT, FILTER_AND, FILTER_OR };

/* The longest first. */
enum filter_operator { IS_NOT, AT_MOST, AT_LEAST, IS, LESS, MORE, HAS };

static const char *const operators[] = {[IS_NOT] = "!=",
	[AT_MOST] = "<=",
	[AT_LEAST] = ">=",
	[IS] = "=",
	[LESS] = "<",
	[MORE] = ">",
	[HAS] = ":"};

#define OPERATORS (sizeof(operators) / sizeof(operators[0]))

struct smd_filter {
	enum filter_kind kind;
	/* IS: */
	char *key;
	enum filter_operator operator;
	char *value;
	enum smd_filter_key key_kind;
	int64_t number; /* of a time in nanoseconds, or of a name */
	const struct smd_filter_name *names; /* that there are */
	/* NOT, AND, OR: */
	struct smd_filter *left;
	struct smd_filter *right;
};

struct filter_parser {
	const char *rest;
	unsigned depth;
	smd_filter_key_fn *key_of;
	struct smd_error *error;
};

static int parse_expression(struct filter_parser *parser, struct smd_filter **out);

/* ---- times ---- */

/* Minutes before or after UTC: "Z", "+01:00". */
static int take_offset(const char **text, int *minutes)
{
	int sign = **text == '-' ? -1 : 1;
	int hours;
	int rest;
	int length = 0;

	*minutes = 0;
	if (**text == 'Z' || **text == 'z') {
		++*text;
		return 0;
	}
	if (**text != '+' && **text != '-') {
		return 0; /* UTC, as elsewhere */
	}
	if (strspn(*text + 1, "0123456789:") != 5 ||
		sscanf(*text + 1, "%2d:%2d%n", &hours, &rest, &length) != 2 || length != 5) {
		return -EINVAL;
	}
	*minutes = sign * (60 * hours + rest);
	*text += 6;
	return 0;
}

static int64_t take_fraction(const char **text)
{
	int64_t ns = 0;
	int64_t unit = SMD_SECOND_NS / 10;

	if (**text != '.') {
		return 0;
	}
	for (++*text; isdigit((unsigned char)**text); ++*text) {
		ns += (**text - '0') * unit;
		unit /= 10;
	}
	return ns;
}

int smd_filter_time(const char *text, int64_t *ns)
{
	struct tm parts = {.tm_mday = 1};
	const char *rest = strptime(text, "%Y-%m-%d", &parts);
	int64_t fraction = 0;
	int minutes = 0;

	if (rest && (*rest == 'T' || *rest == 't' || *rest == ' ')) {
		rest = strptime(rest + 1, "%H:%M:%S", &parts);
		fraction = rest ? take_fraction(&rest) : 0;
	}
	if (!rest || take_offset(&rest, &minutes) || *rest || parts.tm_year < YEAR_MIN - 1900 ||
		parts.tm_year > 9999 - 1900) {
		return -EINVAL;
	}
	/* Nanoseconds of 64 bits end in 2262. */
	if (parts.tm_year > 2200 - 1900) {
		*ns = INT64_MAX;
	} else {
		*ns = ((int64_t)timegm(&parts) - 60 * minutes) * (int64_t)SMD_SECOND_NS + fraction;
	}
	return 0;
}

/* ---- parsing ---- */

static void skip_blanks(struct filter_parser *parser)
{
	parser->rest += strspn(parser->rest, BLANKS);
}

static int sees_word(const struct filter_parser *parser, const char *word)
{
	size_t length = strlen(word);

	return strncmp(parser->rest, word, length) == 0 && parser->rest[length] &&
	       strchr(BLANKS "(", parser->rest[length]);
}

static int take_word(struct filter_parser *parser, const char *word)
{
	if (!sees_word(parser, word)) {
		return 0;
	}
	parser->rest += strlen(word);
	skip_blanks(parser);
	return 1;
}

/* Takes over left and right, in any case. */
static int join(enum filter_kind kind, struct smd_filter *left, struct smd_filter *right,
	struct smd_filter **out)
{
	struct smd_filter *filter = calloc(1, sizeof(*filter));

	if (!filter) {
		smd_filter_free(left);
		smd_filter_free(right);
		return -ENOMEM;
	}
	*filter = (struct smd_filter){.kind = kind, .left = left, .right = right};
	*out = filter;
	return 0;
}

/* In quotes, where a backslash takes the next character as it is, or up to one of `ends`. */
static char *take_text(struct filter_parser *parser, const char *ends)
{
	char quote = *parser->rest == '"' || *parser->rest == '\'' ? *parser->rest : '\0';
	char *text = malloc(strlen(parser->rest) + 1);
	size_t length = 0;

	if (!text) {
		return NULL;
	}
	parser->rest += quote != '\0';
	while (*parser->rest && (quote ? *parser->rest != quote : !strchr(ends, *parser->rest))) {
		parser->rest += quote && *parser->rest == '\\' && parser->rest[1];
		text[length++] = *parser->rest++;
	}
	text[length] = '\0';
	if (quote && *parser->rest++ != quote) {
		parser->rest--;
		free(text);
		return NULL;
	}
	return text;
}

/* display_name is displayName, and labels.my_label stays. */
static void respell(char *key)
{
	char *out = key;

	for (const char *in = key; *in; in++) {
		if (strncmp(in, LABELS, strlen(LABELS)) == 0 && (in == key || in[-1] == '.')) {
			memmove(out, in, strlen(in) + 1);
			return;
		}
		if (*in == '_' && islower((unsigned char)in[1])) {
			*out++ = (char)toupper((unsigned char)*++in);
		} else {
			*out++ = *in;
		}
	}
	*out = '\0';
}

/* labels."my-label" is labels.my-label. */
static char *take_key(struct filter_parser *parser)
{
	size_t size = strlen(parser->rest) + 1;
	char *key = malloc(size);
	size_t length = 0;

	while (key && *parser->rest && !strchr(BLANKS "()=!<>:", *parser->rest)) {
		char *part = take_text(parser, BLANKS "()=!<>:.\"'");

		if (!part) {
			free(key);
			return NULL;
		}
		memcpy(key + length, part, strlen(part));
		length += strlen(part);
		free(part);
		if (*parser->rest == '.') {
			key[length++] = *parser->rest++;
		}
	}
	if (key) {
		key[length] = '\0';
		respell(key);
	}
	return key;
}

static int take_operator(struct filter_parser *parser, enum filter_operator *out)
{
	skip_blanks(parser);
	for (size_t i = 0; i < OPERATORS; i++) {
		size_t length = strlen(operators[i]);

		if (strncmp(parser->rest, operators[i], length) == 0) {
			parser->rest += length;
			skip_blanks(parser);
			*out = (enum filter_operator)i;
			return 0;
		}
	}
	return smd_error_set(parser->error, EINVAL,
		"must have KEY OPERATOR VALUE such as state=\"JOB_STATE_RUNNING\", with AND or OR "
		"between several");
}

/* JOB_STATE_FAILED, FAILED or 5. 0 or -EINVAL. */
static int find_name(const struct smd_filter_name *names, const char *text, int64_t *number)
{
	size_t length = strlen(text);

	for (; names->name; names++) {
		size_t rest = strlen(names->name) - length;
		char digits[16];

		snprintf(digits, sizeof(digits), "%d", names->number);
		if (strcasecmp(names->name, text) == 0 || strcmp(digits, text) == 0 ||
			(length > 0 && length < strlen(names->name) &&
				names->name[rest - 1] == '_' &&
				strcasecmp(names->name + rest, text) == 0)) {
			*number = names->number;
			return 0;
		}
	}
	return -EINVAL;
}

static int refuse_name(const struct filter_parser *parser, const struct smd_filter *filter)
{
	char list[256] = "";
	size_t length = 0;

	for (size_t i = 0; filter->names[i].name && length < sizeof(list); i++) {
		length += (size_t)snprintf(list + length, sizeof(list) - length, "%s%s",
			i ? ", " : "", filter->names[i].name);
	}
	return smd_error_set(parser->error, EINVAL, "%.64s must be one of %s, got \"%.64s\"",
		filter->key, list, filter->value);
}

/* What HAS looks for is a part of a text, whatever that is. */
static int check_restriction(struct filter_parser *parser, struct smd_filter *filter)
{
	enum smd_filter_key kind = parser->key_of(filter->key, &filter->names);

	if (kind == SMD_FILTER_NO_KEY) {
		return smd_error_set(parser->error, EINVAL, "\"%.64s\" is not a field to filter by",
			filter->key);
	}
	filter->key_kind = filter->operator== HAS ? SMD_FILTER_TEXT : kind;
	if (filter->key_kind == SMD_FILTER_TIME && smd_filter_time(filter->value, &filter->number)) {
		return smd_error_set(parser->error, EINVAL,
			"%.64s must be compared with a time such as \"2026-01-31T12:00:00Z\", got "
			"\"%.64s\"",
			filter->key, filter->value);
	}
	if (filter->key_kind == SMD_FILTER_NAME &&
		find_name(filter->names, filter->value, &filter->number)) {
		return refuse_name(parser, filter);
	}
	return 0;
}

static int parse_restriction(struct filter_parser *parser, struct smd_filter **out)
{
	int ret = join(FILTER_IS, NULL, NULL, out);

	if (ret) {
		return ret;
	}
	(*out)->key = take_key(parser);
	ret = (*out)->key && *(*out)->key ? take_operator(parser, &(*out)->operator)
					  : smd_error_set(parser->error, EINVAL,
						    "must have a field before each operator, and "
						    "an end for each quote");
	if (!ret) {
		(*out)->value = take_text(parser, BLANKS "()");
		ret = (*out)->value ? check_restriction(parser, *out)
				    : smd_error_set(parser->error, EINVAL,
					      "must have an end for each quote");
	}
	if (ret) {
		smd_filter_free(*out);
	}
	return ret;
}

static int parse_parentheses(struct filter_parser *parser, struct smd_filter **out)
{
	int ret;

	parser->rest++;
	ret = parse_expression(parser, out);
	if (!ret && *parser->rest != ')') {
		smd_filter_free(*out);
		ret = smd_error_set(parser->error, EINVAL, "must have a ) for each (");
	}
	if (!ret) {
		parser->rest++;
	}
	return ret;
}

static int parse_term(struct filter_parser *parser, struct smd_filter **out)
{
	int is_not = take_word(parser, "NOT");
	int ret;

	if (!is_not && *parser->rest == '-') {
		parser->rest++;
		is_not = 1;
	}
	ret = *parser->rest == '(' ? parse_parentheses(parser, out)
				   : parse_restriction(parser, out);
	if (!ret && is_not) {
		ret = join(FILTER_NOT, *out, NULL, out);
	}
	skip_blanks(parser);
	return ret;
}

static int parse_factor(struct filter_parser *parser, struct smd_filter **out)
{
	struct smd_filter *right;
	int ret = parse_term(parser, out);

	while (!ret && take_word(parser, "OR")) {
		ret = parse_term(parser, &right);
		if (ret) {
			smd_filter_free(*out);
		} else {
			ret = join(FILTER_OR, *out, right, out);
		}
	}
	return ret;
}

static int parse_expression(struct filter_parser *parser, struct smd_filter **out)
{
	struct smd_filter *right;
	int ret;

	if (++parser->depth > DEPTH_MAX) {
		return smd_error_set(
			parser->error, EINVAL, "parentheses must be at most %d deep", DEPTH_MAX);
	}
	skip_blanks(parser);
	ret = parse_factor(parser, out);
	while (!ret && *parser->rest && *parser->rest != ')') {
		take_word(parser, "AND");
		ret = parse_factor(parser, &right);
		if (ret) {
			smd_filter_free(*out);
		} else {
			ret = join(FILTER_AND, *out, right, out);
		}
	}
	parser->depth--;
	return ret;
}

int smd_filter_parse(const char *text, smd_filter_key_fn *key_of, struct smd_filter **out,
	struct smd_error *error)
{
	struct filter_parser parser = {.rest = text, .key_of = key_of, .error = error};
	struct smd_filter *filter = NULL;
	int ret;

	*out = NULL;
	if (strlen(text) > LENGTH_MAX) {
		return smd_error_set(error, EINVAL, "must have at most %d bytes", LENGTH_MAX);
	}
	skip_blanks(&parser);
	if (!*parser.rest) {
		return 0;
	}
	ret = parse_expression(&parser, &filter);
	if (!ret && *parser.rest) {
		smd_filter_free(filter);
		ret = smd_error_set(error, EINVAL, "must have a ( for each )");
	}
	if (!ret) {
		*out = filter;
	}
	return ret;
}

void smd_filter_free(struct smd_filter *filter)
{
	if (filter) {
		smd_filter_free(filter->left);
		smd_filter_free(filter->right);
		free(filter->key);
		free(filter->value);
		free(filter);
	}
}

/* ---- applying ---- */

/* What is no time or no such name is before all. */
static int compare(const struct smd_filter *filter, const char *text)
{
	int64_t number = INT64_MIN;

	switch (filter->key_kind) {
	case SMD_FILTER_TIME:
		smd_filter_time(text, &number);
		break;
	case SMD_FILTER_NAME:
		find_name(filter->names, text, &number);
		break;
	default:
		return strcmp(text, filter->value);
	}
	return (number > filter->number) - (number < filter->number);
}

static int has_text(const char *text, const char *value)
{
	size_t length = strlen(value);

	if (length > 0 && value[length - 1] == '*') {
		return strncasecmp(text, value, length - 1) == 0;
	}
	return strcasestr(text, value) != NULL;
}

static int holds(const struct smd_filter *filter, const char *text)
{
	switch (filter->operator) {
	case IS:
		return compare(filter, text) == 0;
	case IS_NOT:
		return compare(filter, text) != 0;
	case LESS:
		return compare(filter, text) < 0;
	case AT_MOST:
		return compare(filter, text) <= 0;
	case MORE:
		return compare(filter, text) > 0;
	case AT_LEAST:
		return compare(filter, text) >= 0;
	case HAS:
		return has_text(text, filter->value);
	}
	return 0;
}

int smd_filter_has(const struct smd_filter *filter, smd_filter_value_fn *value_of, void *arg)
{
	const char *text;

	if (!filter) {
		return 1;
	}
	switch (filter->kind) {
	case FILTER_IS:
		text = value_of(arg, filter->key);
		return text ? holds(filter, text) : filter->operator== IS_NOT;
	case FILTER_NOT:
		return !smd_filter_has(filter->left, value_of, arg);
	case FILTER_AND:
		return smd_filter_has(filter->left, value_of, arg) &&
		       smd_filter_has(filter->right, value_of, arg);
	case FILTER_OR:
		return smd_filter_has(filter->left, value_of, arg) ||
		       smd_filter_has(filter->right, value_of, arg);
	}
	return 0;
}

static struct smd_filter_span span_of_restriction(const struct smd_filter *filter, const char *key)
{
	struct smd_filter_span span = {INT64_MIN, INT64_MAX};

	if (filter->key_kind != SMD_FILTER_TIME || strcmp(filter->key, key) != 0) {
		return span;
	}
	if (filter->operator== IS || filter->operator== MORE || filter->operator== AT_LEAST) {
		span.first_ns = filter->number;
	}
	if (filter->operator== IS || filter->operator== LESS || filter->operator== AT_MOST) {
		span.last_ns = filter->number;
	}
	return span;
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t greatest(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

struct smd_filter_span smd_filter_span_of(const struct smd_filter *filter, const char *key)
{
	const struct smd_filter_span any = {INT64_MIN, INT64_MAX};
	struct smd_filter_span left;
	struct smd_filter_span right;

	if (!filter || filter->kind == FILTER_NOT) {
		return any;
	}
	if (filter->kind == FILTER_IS) {
		return span_of_restriction(filter, key);
	}
	left = smd_filter_span_of(filter->left, key);
	right = smd_filter_span_of(filter->right, key);
	if (filter->kind == FILTER_AND) {
		return (struct smd_filter_span){greatest(left.first_ns, right.first_ns),
			least(left.last_ns, right.last_ns)};
	}
	return (struct smd_filter_span){
		least(left.first_ns, right.first_ns), greatest(left.last_ns, right.last_ns)};
}

const char *smd_filter_only(const struct smd_filter *filter, const char *key)
{
	const char *text;

	if (!filter || filter->kind == FILTER_NOT || filter->kind == FILTER_OR) {
		return NULL;
	}
	if (filter->kind == FILTER_IS) {
		return filter->operator== IS && strcmp(filter->key, key) == 0 ? filter->value
									      : NULL;
	}
	text = smd_filter_only(filter->left, key);
	return text ? text : smd_filter_only(filter->right, key);
}
