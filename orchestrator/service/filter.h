/*
 * Filters of the API's lists, jobs as well as log entries: Google's AIP-160.
 *
 * KEY OPERATOR VALUE with AND or OR between, NOT or - before, and parentheses; OR binds more than
 * AND, and of what has nothing between all must hold. Operators: = != < <= > >=, and : for a text
 * that has the value in it, begins with it (VALUE*), or is there at all (*). Keys whose values are
 * times are compared as such, and those of an enumeration by its order.
 */
#ifndef SMD_SERVICE_FILTER_H
#define SMD_SERVICE_FILTER_H

#include <stdint.h>

#include "reduction_server/base/error.h"

struct smd_filter;

/* What a filter is of. */
enum smd_filter_key { SMD_FILTER_NO_KEY, SMD_FILTER_TEXT, SMD_FILTER_TIME, SMD_FILTER_NAME };

/* A value of an enumeration; filters have its name, that without the prefix, or the number. */
struct smd_filter_name {
	const char *name; /* NULL: the list's end */
	int number;
};

/* Says what a key is, which is in lowerCamelCase but for what is below labels; of SMD_FILTER_NAME
 * all its values, too. */
typedef enum smd_filter_key smd_filter_key_fn(
	const char *key, const struct smd_filter_name **values);

/* The key's value of what is looked at; NULL: it has none. It is valid until the next call. */
typedef const char *smd_filter_value_fn(void *arg, const char *key);

/* 0; -EINVAL with what must hold; -ENOMEM. An empty text has all. */
int smd_filter_parse(const char *text, smd_filter_key_fn *key_of, struct smd_filter **out,
	struct smd_error *error);
void smd_filter_free(struct smd_filter *filter);

/* NULL as filter has all. */
int smd_filter_has(const struct smd_filter *filter, smd_filter_value_fn *value_of, void *arg);

/* Nanoseconds since 1970 that the key's value must have at least and at most for the filter to
 * hold: no more than what can be said of it. */
struct smd_filter_span {
	int64_t first_ns;
	int64_t last_ns;
};
struct smd_filter_span smd_filter_span_of(const struct smd_filter *filter, const char *key);

/* The text that the key must have for the filter to hold; NULL: it may have several. */
const char *smd_filter_only(const struct smd_filter *filter, const char *key);

/* "2026-01-31T12:00:00.5+01:00" in nanoseconds since 1970. 0 or -EINVAL. */
int smd_filter_time(const char *text, int64_t *ns);

#endif
