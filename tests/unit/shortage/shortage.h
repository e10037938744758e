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
/* The same, but of those alone that OpenSSL makes in a source file whose name ends so. */
void shortage_begin_in(const char *file, long n);
/* For the hook of a library: what it allocates from here on, on this thread, is in that file. NULL:
 * this is no such library. */
void shortage_enter_file(const char *file);
/* No more. Whether one has failed. */
bool shortage_end(void);

#endif
