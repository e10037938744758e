/*
 * What this process says on standard error while a test runs, so that the test can look for it.
 */
#ifndef SMD_TESTS_CAPTURE_H
#define SMD_TESTS_CAPTURE_H

#include <stdbool.h>

/* Everything is shown (SUMMAND_LOG=debug) and kept. Call before any thread is started. */
void capture_begin(void);

/* Whether a line with both texts (the second may be NULL) has been said. */
bool capture_has(const char *text, const char *other);

/* How many lines have it. */
unsigned capture_count(const char *text);

/* Waits until it has been said: a few seconds, then the test fails. */
void capture_await(const char *text, const char *other);

/* Gives standard error back, and shows there what was kept. */
void capture_end(void);

/* Both, as what cmocka calls before and after a test, or a group of them. 0. */
int capture_set_up(void **state);
int capture_tear_down(void **state);

#endif
