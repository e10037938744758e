/*
 * The address of something that speaks HTTP: "https://host:port/path".
 */
#ifndef SMD_CLIENT_URL_H
#define SMD_CLIENT_URL_H

#include "reduction_server/base/error.h"

#define SMD_URL_HOST_SIZE 256
#define SMD_URL_PATH_SIZE 1024

struct smd_url {
	int is_tls;
	char host[SMD_URL_HOST_SIZE];         /* without brackets */
	char authority[SMD_URL_HOST_SIZE + 8]; /* "host:port", as the header Host has it */
	char endpoint[SMD_URL_HOST_SIZE + 8];  /* the same, with a port in any case */
	char path[SMD_URL_PATH_SIZE];         /* with the query; "" : none was given */
};

/* 0, or -EINVAL with what must hold: printable, without a user's name, blanks or a fragment. */
int smd_url_parse(const char *text, struct smd_url *out, struct smd_error *error);

#endif
