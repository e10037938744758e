/*
 * --filter: which jobs a list shows, in gcloud's language.
 *
 * Terms (filter_term.h) with AND or OR between them, NOT before one, and parentheses, which must be
 * there where AND and OR are mixed. Of terms with nothing between them all must hold; that binds
 * less than AND and OR.
 */
#ifndef SMD_CLI_JOB_FILTER_H
#define SMD_CLI_JOB_FILTER_H

#include "orchestrator/store/store.h"
#include "reduction_server/base/error.h"

struct smd_job_filter;

/* -EINVAL: the error has what must hold. */
int smd_job_filter_parse(const char *text, struct smd_job_filter **out, struct smd_error *error);
void smd_job_filter_free(struct smd_job_filter *filter);

/* Whether it looks at nothing but what smd_job_row_is_text() has. */
int smd_job_filter_is_of_texts(const struct smd_job_filter *filter);

/* NULL as filter has all. */
int smd_job_filter_has(const struct smd_job_filter *filter, const struct smd_stored_job *job);

#endif
