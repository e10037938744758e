/*
 * One request over HTTP and its answer, on a connection of its own.
 *
 * It blocks, for no longer than its time limit. Redirects are not followed. Over TLS the other end
 * must have a certificate for the URL's host.
 */
#ifndef SMD_CLIENT_EXCHANGE_H
#define SMD_CLIENT_EXCHANGE_H

#include <stddef.h>

#include "orchestrator/client/url.h"

/* How one reaches the other end; NULL: not so. */
struct smd_http_reach {
	const char *ca_file;   /* authorities in PEM; NULL: those that the system trusts */
	const char *cert_file; /* a certificate of one's own, and its key */
	const char *key_file;
	unsigned timeout_s;
};

struct smd_exchange {
	const char *method;
	const char *path;    /* NULL: the URL's */
	const char *headers; /* lines that end with "\r\n", or NULL */
	const char *body;    /* JSON, or NULL */
	size_t body_length;
	size_t answer_max; /* bytes of the answer's body; more are an error */
	/* The answer: */
	int status;
	char *answer; /* with a NUL behind it; the caller frees it */
	size_t answer_length;
};

/* 0: there is an answer, of any status. -errno with a text. */
int smd_exchange(const struct smd_url *url, const struct smd_http_reach *reach,
	struct smd_exchange *exchange, struct smd_error *error);

#endif
