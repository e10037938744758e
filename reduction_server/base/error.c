/* Keeps the first failure's text. */
#include "reduction_server/base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "reduction_server/base/printable.h"

void smd_error_write(struct smd_error *error, const char *format, ...)
{
	int saved = errno;
	va_list args;

	if (!error || error->text[0] != '\0') {
		return;
	}
	va_start(args, format);
	vsnprintf(error->text, sizeof(error->text), format, args);
	va_end(args);
	smd_printable(error->text);
	errno = saved;
}

void smd_error_add(struct smd_error *error, const char *text)
{
	size_t used = strlen(error->text);

	snprintf(error->text + used, sizeof(error->text) - used, "; %s", text);
	smd_printable(error->text);
}
