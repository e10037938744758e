/* Refuses requests that are not for this service, that another web page has sent, or without the
 * token. */
#include "orchestrator/service/access.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define BEARER      "Bearer "
#define NAME_SIZE   256
#define BAD_REQUEST 400
#define MISDIRECTED 421
#define BAD_TYPE    415
#define JSON_TYPE   "application/json"

/* "[::1]:8080" and "localhost:8080" without the port. 0 or -EINVAL. */
static int name_of(const char *host, char name[NAME_SIZE])
{
	const char *start = *host == '[' ? host + 1 : host;
	size_t length = strcspn(start, *host == '[' ? "]" : ":");
	const char *rest = start + length + (*host == '[' && start[length] == ']');

	if (length == 0 || length >= NAME_SIZE || (*host == '[' && start[length] != ']') ||
		(*rest && (*rest != ':' || rest[1 + strspn(rest + 1, "0123456789")]))) {
		return -EINVAL;
	}
	memcpy(name, start, length);
	name[length] = '\0';
	return 0;
}

/* A page of a stranger's can have its own name mean our address, and never an address or one of
 * our names. */
static int is_ours(const struct smd_access *access, const char *name)
{
	unsigned char address[sizeof(struct in6_addr)];

	if (inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1 ||
		strcasecmp(name, "localhost") == 0) {
		return 1;
	}
	for (size_t i = 0; i < access->nhosts; i++) {
		if (strcasecmp(name, access->hosts[i]) == 0) {
			return 1;
		}
	}
	return 0;
}

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
	char name[NAME_SIZE];

	if (credentials->is_ambiguous || !credentials->host || name_of(credentials->host, name)) {
		smd_answer_refuse(answer, BAD_REQUEST, SMD_RPC_INVALID_ARGUMENT,
			"the request must have one Host and one length, in headers that all read alike");
	} else if (!is_ours(access, name)) {
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
