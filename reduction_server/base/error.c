/* Keeps the first failure's text. */
#include "reduction_server/base/error.h"

#include <stdarg.h>
#include <stdio.h>

int smd_error_set(struct smd_error *error, int err, const char *format, ...)
{
	if (error && error->text[0] == '\0') {
		va_list args;

		va_start(args, format);
		vsnprintf(error->text, sizeof(error->text), format, args);
		va_end(args);
	}
	return -err;
}
