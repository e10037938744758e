/*
 * One term of a filter: KEY OPERATOR VALUE, or KEY OPERATOR (VALUE VALUE ...), which holds if it
 * does of one of the values.
 *
 * Operators: = != for the text itself, : for a text that has it in it (VALUE* begins with it), ~ !~
 * for a regular expression, < <= > >= for times. A - before the key is the opposite. Keys are those
 * of a list's rows (job_row.h).
 */
#ifndef SMD_CLI_FILTER_TERM_H
#define SMD_CLI_FILTER_TERM_H

#include <regex.h>

#include "orchestrator/store/store.h"
#include "reduction_server/base/error.h"

enum smd_filter_operator {
	SMD_FILTER_EQUAL,
	SMD_FILTER_HAS,
	SMD_FILTER_MATCHES,
	SMD_FILTER_LESS,
	SMD_FILTER_LESS_EQUAL,
	SMD_FILTER_GREATER,
	SMD_FILTER_GREATER_EQUAL
};

struct smd_filter_term {
	char *key;
	char **values; /* ended by NULL */
	enum smd_filter_operator operator;
	int negated;
	int is_compiled;
	regex_t expression;
};

/* Takes a term from the beginning of *text, which is moved behind it. 0, or -EINVAL or -ENOMEM,
 * with a text where it is not just that there is no term. The caller clears *term in any case. */
int smd_filter_term_take(struct smd_filter_term *term, const char **text, struct smd_error *error);
void smd_filter_term_clear(struct smd_filter_term *term);

/* Whether it looks at nothing but what smd_job_row_is_text() has. */
int smd_filter_term_is_of_texts(const struct smd_filter_term *term);

int smd_filter_term_has(const struct smd_filter_term *term, const struct smd_stored_job *job);

#endif
