/*
 * Who may ask: whether a request is meant for this service, comes from no other web page, and
 * brings the token if there is one (specs/design/service.md, "Security").
 */
#ifndef SMD_SERVICE_ACCESS_H
#define SMD_SERVICE_ACCESS_H

#include <stddef.h>

#include "orchestrator/service/answer.h"

#define SMD_ACCESS_HOSTS_MAX 16

struct smd_access {
	const char *token;                       /* NULL: none is needed */
	const char *hosts[SMD_ACCESS_HOSTS_MAX]; /* names of this service, beside addresses */
	size_t nhosts;
	int has_tls;
};

/* What of a request counts; NULL: it has no such header. */
struct smd_credentials {
	const char *host;
	const char *origin;
	const char *authorization;
	const char *content_type;
	int has_body;
	int is_ambiguous; /* headers that frame or direct it are there twice */
	int is_of_page;   /* it asks for a part of the page, which has no secret */
};

/* 0; -EACCES when it is refused, and answered. */
int smd_access_check(const struct smd_access *access, const struct smd_credentials *credentials,
	struct smd_answer *answer);

#endif
