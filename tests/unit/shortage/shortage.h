/*
 * A shortage of memory: one allocation of a program under test fails, and the test tries each in
 * turn. The linker sends here what the code of a program that links this allocates (--wrap);
 * libevent, OpenSSL and jansson have hooks.
 */
#ifndef SMD_TESTS_SHORTAGE_H
#define SMD_TESTS_SHORTAGE_H

#include <stdbool.h>
#include <stddef.h>

/* libevent's and OpenSSL's too, before either is used. */
void shortage_watch_libraries(void);
/* For the hook of a library. */
void *shortage_malloc(size_t size);

/* From now on the n-th allocation, from 0, of any thread fails. */
void shortage_begin(long n);
/* No more. Whether one has failed. */
bool shortage_end(void);

#endif
