/*
 * The order of a list, as `orderBy` has it, and where its next page begins, as `pageToken` does.
 *
 * A token has the values of the last job of the page before, so it holds whether that job is still
 * there or not, and jobs that come in between move nothing.
 */
#ifndef SMD_SERVICE_PAGE_TOKEN_H
#define SMD_SERVICE_PAGE_TOKEN_H

#include <jansson.h>

#include "orchestrator/store/store.h"

struct smd_page_token {
	struct smd_store_position place;
	json_t *values; /* which it borrows */
};

/* "state, create_time desc"; an empty text is "create_time desc". 0, or -EINVAL with what must hold.
 */
int smd_order_parse(const char *text, struct smd_store_order *out, struct smd_error *error);

/* 0; -EINVAL: it is no token of that order; -ENOMEM. */
int smd_page_token_parse(
	const char *token, const struct smd_store_order *order, struct smd_page_token **out);
void smd_page_token_free(struct smd_page_token *position);

/* The token of what is behind the job. The caller frees it; NULL: out of memory. */
char *smd_page_token_write(const struct smd_store_order *order, const struct smd_stored_job *job);

#endif
