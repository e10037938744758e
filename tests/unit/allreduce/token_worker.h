/* A worker of a job with a token: one that makes its way to a server, with the right one or not. */
#ifndef SMD_TESTS_TOKEN_WORKER_H
#define SMD_TESTS_TOKEN_WORKER_H

#define TOKEN "the-job's-own-token"

/* Connects, does one operation and leaves: 0 or -errno. The token is what the environment's file
 * holds; NULL: there is none. */
int token_work(const char *address, const char *job, const char *token);

/* The last error says that, and not the token. */
void token_assert_said(const char *text);

#endif
