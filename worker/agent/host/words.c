/* Writes command lines word by word. */
#include "worker/agent/host/words.h"

#include <stdarg.h>
#include <stdio.h>

void smd_words_add(struct smd_words *words, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (vasprintf(&words->argv[words->count], format, args) < 0) {
		words->argv[words->count] = NULL;
		words->failed = 1;
	} else {
		words->count++;
	}
	va_end(args);
}
