/* Reads a token from its file. */
#include "reduction_server/base/token.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int smd_token_read(
	const char *what, const char *path, char token[SMD_TOKEN_MAX + 1], struct smd_error *error)
{
	char text[SMD_TOKEN_MAX + 3]; /* with the line's end */
	FILE *file = fopen(path, "r");
	size_t length;

	if (!file) {
		return smd_error_set(error, errno, "%s: cannot read %s: %m", what, path);
	}
	length = fread(text, 1, sizeof(text), file);
	fclose(file);
	while (length && (text[length - 1] == '\n' || text[length - 1] == '\r')) {
		length--;
	}
	if (length == 0 || length > SMD_TOKEN_MAX || memchr(text, '\0', length)) {
		return smd_error_set(error, EINVAL, "%s: %s must hold 1 to %d characters", what,
			path, SMD_TOKEN_MAX);
	}
	memcpy(token, text, length);
	token[length] = '\0';
	return 0;
}
