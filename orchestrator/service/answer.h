/*
 * What a request is answered: a status and a JSON document, which for errors has the form that
 * Google's services give them, or a part of the page.
 */
#ifndef SMD_SERVICE_ANSWER_H
#define SMD_SERVICE_ANSWER_H

#include <jansson.h>
#include <stdint.h>

/* X(google.rpc.Code, number, HTTP status) */
#define SMD_RPC_CODES(X)                                                                           \
	X(INVALID_ARGUMENT, 3, 400)                                                                \
	X(NOT_FOUND, 5, 404)                                                                       \
	X(PERMISSION_DENIED, 7, 403)                                                               \
	X(RESOURCE_EXHAUSTED, 8, 429)                                                              \
	X(FAILED_PRECONDITION, 9, 400)                                                             \
	X(UNIMPLEMENTED, 12, 501)                                                                  \
	X(INTERNAL, 13, 500)                                                                       \
	X(UNAVAILABLE, 14, 503)                                                                    \
	X(UNAUTHENTICATED, 16, 401)

enum smd_rpc_code {
#define X(name, number, status) SMD_RPC_##name,
	SMD_RPC_CODES(X)
#undef X
};

struct smd_page_part;

struct smd_answer {
	unsigned status; /* of HTTP; 0: there is no answer yet */
	json_t *body;
	const struct smd_page_part *part; /* in place of the body; NULL: none */
	int has_file;                     /* in place of the body, a file of so many bytes */
	int fd;
	uint64_t size;
};

/* Takes over the body; NULL is an internal error, as for what memory ran out for. */
void smd_answer_set(struct smd_answer *answer, json_t *body);

/* Answers with a part of the page. */
void smd_answer_show(struct smd_answer *answer, const struct smd_page_part *part);

/* Answers with a file, and takes over its descriptor. */
void smd_answer_send(struct smd_answer *answer, int fd, uint64_t size);

/* The first error wins. */
void smd_answer_fail(struct smd_answer *answer, enum smd_rpc_code code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The same with another status than the code's. */
void smd_answer_refuse(struct smd_answer *answer, unsigned status, enum smd_rpc_code code,
	const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Adds a violation to an INVALID_ARGUMENT, whose message has the descriptions of all of them. */
void smd_answer_violate(struct smd_answer *answer, const char *field, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

void smd_answer_clear(struct smd_answer *answer);

#endif
