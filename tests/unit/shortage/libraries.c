/* Libraries that take their memory by hooks. */
#include <event2/event.h>
#include <stdlib.h>
#ifdef SMD_TLS
#include <openssl/crypto.h>
#endif

#include "tests/unit/shortage/shortage.h"

#ifdef SMD_TLS
static void *openssl_malloc(size_t size, const char *file, int line)
{
	void *memory;

	(void)line;
	shortage_enter_file(file);
	memory = malloc(size);
	shortage_enter_file(NULL);
	return memory;
}

static void *openssl_realloc(void *memory, size_t size, const char *file, int line)
{
	(void)line;
	shortage_enter_file(file);
	memory = realloc(memory, size);
	shortage_enter_file(NULL);
	return memory;
}

static void openssl_free(void *memory, const char *file, int line)
{
	(void)file;
	(void)line;
	free(memory);
}
#endif

/* malloc and realloc are those of shortage.c in this file too. */
void shortage_watch_libraries(void)
{
	event_set_mem_functions(malloc, realloc, free);
#ifdef SMD_TLS
	CRYPTO_set_mem_functions(openssl_malloc, openssl_realloc, openssl_free);
#endif
}
