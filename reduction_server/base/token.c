/* Reads a token from its file. */
#include "reduction_server/base/token.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define GROUP_AND_OTHERS (S_IWGRP | S_IXGRP | S_IRWXO) /* all but reading by the group */

/*
 * Others could use what they can read, and put a token of theirs in its place. The group may read,
 * because that is how systemd and Kubernetes hand a secret to a user that does not own it. What has
 * no name cannot be opened by others: an inherited pipe, or memory.
 */
static int check_private(const char *what, const char *path, FILE *file, struct smd_error *error)
{
	struct stat status;

	if (fstat(fileno(file), &status)) {
		return smd_error_set(error, errno, "%s: cannot read %s: %m", what, path);
	}
	if (status.st_nlink && (status.st_mode & GROUP_AND_OTHERS)) {
		return smd_error_set(error, EACCES,
			"%s: %s must be for its owner alone to write and for nobody else but its "
			"group to read, got mode %04o: chmod 600 %s",
			what, path, status.st_mode & 07777, path);
	}
	return 0;
}

int smd_token_read(
	const char *what, const char *path, char token[SMD_TOKEN_MAX + 1], struct smd_error *error)
{
	char text[SMD_TOKEN_MAX + 3]; /* with the line's end */
	FILE *file = fopen(path, "r");
	size_t length;
	int ret;

	if (!file) {
		return smd_error_set(error, errno, "%s: cannot read %s: %m", what, path);
	}
	ret = check_private(what, path, file, error);
	if (ret) {
		fclose(file);
		return ret;
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
