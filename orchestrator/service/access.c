/* Refuses requests that are not for this service, that another web page has sent, or without the
 * token. */
#include "orchestrator/service/access.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "reduction_server/transport/host_header.h"

#define BEARER      "Bearer "
#define BAD_REQUEST 400
#define MISDIRECTED 421
#define BAD_TYPE    415
#define JSON_TYPE   "application/json"

/* A browser says which page a request comes from. */
static int is_own_page(const struct smd_access *access, const char *origin, const char *host)
{
	const char *scheme = access->has_tls ? "https://" : "http://";

	return strncmp(origin, scheme, strlen(scheme)) == 0 &&
	       strcasecmp(origin + strlen(scheme), host) == 0;
}

/* A page may send some other types to anybody without being asked, and bytes without one. */
static int is_json(const char *type)
{
	return type && strncasecmp(type, JSON_TYPE, strlen(JSON_TYPE)) == 0 &&
	       strchr("; \t", type[strlen(JSON_TYPE)]);
}

/* In the same time wherever they differ. */
static int is_equal(const char *a, const char *b)
{
	size_t length = strlen(a);
	volatile unsigned char differ = (unsigned char)(strlen(b) != length);

	for (size_t i = 0; i < length && strlen(b) == length; i++) {
		differ |= (unsigned char)(a[i] ^ b[i]);
	}
	return differ == 0;
}

static int has_token(const struct smd_access *access, const char *authorization)
{
	return authorization && strncasecmp(authorization, BEARER, strlen(BEARER)) == 0 &&
	       is_equal(access->token, authorization + strlen(BEARER));
}

int smd_access_check(const struct smd_access *access, const struct smd_credentials *credentials,
	struct smd_answer *answer)
{
	char name[SMD_HOST_HEADER_NAME_SIZE];

	if (credentials->is_ambiguous || !credentials->host ||
		smd_host_header_name(credentials->host, name)) {
		smd_answer_refuse(answer, BAD_REQUEST, SMD_RPC_INVALID_ARGUMENT,
			"the request must have one Host and one length, in headers that all read alike");
	} else if (!smd_host_header_is_own(name, access->hosts, access->nhosts)) {
		smd_answer_refuse(answer, MISDIRECTED, SMD_RPC_PERMISSION_DENIED,
			"Host must be an address, localhost or a name given with --host, got "
			"\"%s\"",
			name);
	} else if (credentials->origin &&
		   !is_own_page(access, credentials->origin, credentials->host)) {
		smd_answer_fail(answer, SMD_RPC_PERMISSION_DENIED,
			"the request must come from no page of another origin");
	} else if ((credentials->has_body || credentials->content_type) &&
		   !is_json(credentials->content_type)) {
		smd_answer_refuse(answer, BAD_TYPE, SMD_RPC_INVALID_ARGUMENT,
			"Content-Type must be " JSON_TYPE);
	} else if (access->token && !credentials->is_of_page &&
		   !has_token(access, credentials->authorization)) {
		smd_answer_fail(answer, SMD_RPC_UNAUTHENTICATED,
			"Request must have the service's token: Authorization: Bearer TOKEN");
	} else {
		return 0;
	}
	return -EACCES;
}
