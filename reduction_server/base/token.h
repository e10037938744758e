/* The job's token, which a worker shows to a server, as a file that both can read holds it. */
#ifndef SMD_BASE_TOKEN_H
#define SMD_BASE_TOKEN_H

#include "reduction_server/base/error.h"

#define SMD_TOKEN_MAX 255 /* characters */

/*
 * Reads the token without the line ends behind it. `what` named the file: "--token-file". -errno
 * with a text: of opening the file, or -EINVAL for what is no token.
 */
int smd_token_read(
	const char *what, const char *path, char token[SMD_TOKEN_MAX + 1], struct smd_error *error);

#endif
