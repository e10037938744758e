/* Counts allocations, and lets one fail. */
#include "tests/unit/shortage/shortage.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static atomic_long countdown = -1; /* allocations until the one that fails; negative: none fails */
static atomic_bool failed;
static const char *_Atomic only_in; /* NULL: allocations count wherever they are */
static _Thread_local const char *file_now;

static bool counts(void)
{
	const char *only = atomic_load(&only_in);
	size_t length = only ? strlen(only) : 0;
	size_t at = file_now ? strlen(file_now) : 0;

	return !only || (at >= length && strcmp(file_now + at - length, only) == 0);
}

static bool fails(void)
{
	if (atomic_load(&countdown) < 0 || !counts() || atomic_fetch_sub(&countdown, 1) != 0) {
		return false;
	}
	atomic_store(&failed, true);
	errno = ENOMEM;
	return true;
}

void shortage_begin(long n)
{
	shortage_begin_in(NULL, n);
}

void shortage_begin_in(const char *file, long n)
{
	atomic_store(&failed, false);
	atomic_store(&only_in, file);
	atomic_store(&countdown, n);
}

void shortage_enter_file(const char *file)
{
	file_now = file;
}

bool shortage_end(void)
{
	atomic_store(&countdown, -1);
	return atomic_load(&failed);
}

/* ---- what the linker puts in front of the C library ---- */

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t length);
int __real_vasprintf(char **out, const char *format, va_list args);
FILE *__real_open_memstream(char **text, size_t *length);
void *__real_mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset);
int __real_pthread_create(
	pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument);
int __real_eventfd(unsigned count, int flags);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t length);
int __wrap_vasprintf(char **out, const char *format, va_list args)
	__attribute__((format(printf, 2, 0)));
int __wrap_asprintf(char **out, const char *format, ...) __attribute__((format(printf, 2, 3)));
FILE *__wrap_open_memstream(char **text, size_t *length);
void *__wrap_mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset);
int __wrap_pthread_create(
	pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument);
int __wrap_eventfd(unsigned count, int flags);

void *__wrap_malloc(size_t size)
{
	return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
	return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
	return fails() ? NULL : __real_realloc(memory, size);
}

char *__wrap_strdup(const char *text)
{
	return fails() ? NULL : __real_strdup(text);
}

char *__wrap_strndup(const char *text, size_t length)
{
	return fails() ? NULL : __real_strndup(text, length);
}

int __wrap_vasprintf(char **out, const char *format, va_list args)
{
	return fails() ? -1 : __real_vasprintf(out, format, args);
}

int __wrap_asprintf(char **out, const char *format, ...)
{
	va_list args;
	int length;

	va_start(args, format);
	length = __wrap_vasprintf(out, format, args);
	va_end(args);
	return length;
}

FILE *__wrap_open_memstream(char **text, size_t *length)
{
	return fails() ? NULL : __real_open_memstream(text, length);
}

void *__wrap_mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
	return fails() ? MAP_FAILED : __real_mmap(address, length, protection, flags, fd, offset);
}

/* The kernel's part of a thread and of a descriptor is memory too. */
int __wrap_pthread_create(
	pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
	return fails() ? EAGAIN : __real_pthread_create(thread, attributes, run, argument);
}

int __wrap_eventfd(unsigned count, int flags)
{
	return fails() ? -1 : __real_eventfd(count, flags);
}

void *shortage_malloc(size_t size)
{
	return __wrap_malloc(size);
}
