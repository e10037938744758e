/* Parses --filter, and applies it to jobs. */
#include "orchestrator/cli/job_filter.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/cli/filter_term.h"

#define BLANKS    " \t"
#define DEPTH_MAX 64 /* of parentheses */

enum node_kind { NODE_TERM, NODE_NOT, NODE_AND, NODE_OR };

struct smd_job_filter {
	enum node_kind kind;
	struct smd_filter_term term;  /* TERM */
	struct smd_job_filter *left;  /* NOT, AND, OR */
	struct smd_job_filter *right; /* AND, OR */
};

struct parser {
	const char *text; /* what is left of it */
	unsigned depth;
	struct smd_error *error;
};

static int parse_sequence(struct parser *parser, struct smd_job_filter **out);

static void skip_blanks(struct parser *parser)
{
	parser->text += strspn(parser->text, BLANKS);
}

/* A word on its own. */
static int sees_word(const struct parser *parser, const char *word)
{
	size_t length = strlen(word);
	char next = parser->text[strncmp(parser->text, word, length) == 0 ? length : 0];

	return strncmp(parser->text, word, length) == 0 &&
	       (isspace((unsigned char)next) || next == '(');
}

static int take_word(struct parser *parser, const char *word)
{
	if (!sees_word(parser, word)) {
		return 0;
	}
	parser->text += strlen(word);
	skip_blanks(parser);
	return 1;
}

/* Takes over left and right, in any case. */
static int make_node(enum node_kind kind, struct smd_job_filter *left, struct smd_job_filter *right,
	struct smd_job_filter **out)
{
	struct smd_job_filter *node = calloc(1, sizeof(*node));

	if (!node) {
		smd_job_filter_free(left);
		smd_job_filter_free(right);
		return -ENOMEM;
	}
	*node = (struct smd_job_filter){.kind = kind, .left = left, .right = right};
	*out = node;
	return 0;
}

static int parse_parentheses(struct parser *parser, struct smd_job_filter **out)
{
	int ret;

	if (++parser->depth > DEPTH_MAX) {
		return smd_error_set(
			parser->error, EINVAL, "parentheses must be at most %d deep", DEPTH_MAX);
	}
	parser->text++;
	ret = parse_sequence(parser, out);
	if (!ret && *parser->text != ')') {
		smd_job_filter_free(*out);
		ret = smd_error_set(parser->error, EINVAL, "must have a ) for each (");
	}
	if (!ret) {
		parser->text++;
		parser->depth--;
	}
	return ret;
}

static int parse_term(struct parser *parser, struct smd_job_filter **out)
{
	int ret = make_node(NODE_TERM, NULL, NULL, out);

	if (ret) {
		return ret;
	}
	ret = smd_filter_term_take(&(*out)->term, &parser->text, parser->error);
	if (ret) {
		smd_job_filter_free(*out);
	}
	return ret;
}

/* A term, or what is in parentheses; NOT before it. */
static int parse_one(struct parser *parser, struct smd_job_filter **out)
{
	int is_not = take_word(parser, "NOT");
	int ret = *parser->text == '(' ? parse_parentheses(parser, out) : parse_term(parser, out);

	if (!ret && is_not) {
		ret = make_node(NODE_NOT, *out, NULL, out);
	}
	skip_blanks(parser);
	return ret;
}

/* Some with AND between them, or with OR. */
static int parse_junction(struct parser *parser, struct smd_job_filter **out)
{
	enum node_kind kind = NODE_TERM;
	int ret = parse_one(parser, out);

	while (!ret && (sees_word(parser, "AND") || sees_word(parser, "OR"))) {
		enum node_kind next = take_word(parser, "AND") ? NODE_AND : NODE_OR;
		struct smd_job_filter *right;

		if (kind != NODE_TERM && kind != next) {
			ret = smd_error_set(parser->error, EINVAL,
				"must have parentheses where AND and OR are mixed, as gcloud wants "
				"them");
		} else if (next == NODE_OR && !take_word(parser, "OR")) {
			ret = -EINVAL;
		} else {
			kind = next;
			ret = parse_one(parser, &right);
		}
		if (ret) {
			smd_job_filter_free(*out);
		} else {
			ret = make_node(kind, *out, right, out);
		}
	}
	return ret;
}

/* Of several without a word between them all must hold; that binds least. */
static int parse_sequence(struct parser *parser, struct smd_job_filter **out)
{
	int ret;

	skip_blanks(parser);
	ret = parse_junction(parser, out);
	while (!ret && *parser->text && *parser->text != ')') {
		struct smd_job_filter *right;

		ret = parse_junction(parser, &right);
		if (ret) {
			smd_job_filter_free(*out);
		} else {
			ret = make_node(NODE_AND, *out, right, out);
		}
	}
	return ret;
}

int smd_job_filter_parse(const char *text, struct smd_job_filter **out, struct smd_error *error)
{
	struct parser parser = {.text = text, .error = error};
	struct smd_job_filter *filter = NULL;
	int ret = parse_sequence(&parser, &filter);

	if (!ret && *parser.text) { /* a parenthesis too many */
		smd_job_filter_free(filter);
		ret = smd_error_set(error, EINVAL, "must have a ( for each )");
	}
	if (ret) {
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
	if (filter) {
		smd_job_filter_free(filter->left);
		smd_job_filter_free(filter->right);
		smd_filter_term_clear(&filter->term);
		free(filter);
	}
}

int smd_job_filter_is_of_texts(const struct smd_job_filter *filter)
{
	if (!filter) {
		return 1;
	}
	return filter->kind == NODE_TERM ? smd_filter_term_is_of_texts(&filter->term)
					 : smd_job_filter_is_of_texts(filter->left) &&
						   smd_job_filter_is_of_texts(filter->right);
}

int smd_job_filter_has(const struct smd_job_filter *filter, const struct smd_stored_job *job)
{
	if (!filter) {
		return 1;
	}
	switch (filter->kind) {
	case NODE_TERM:
		return smd_filter_term_has(&filter->term, job);
	case NODE_NOT:
		return !smd_job_filter_has(filter->left, job);
	case NODE_AND:
		return smd_job_filter_has(filter->left, job) &&
		       smd_job_filter_has(filter->right, job);
	case NODE_OR:
		return smd_job_filter_has(filter->left, job) ||
		       smd_job_filter_has(filter->right, job);
	}
	return 0;
}
