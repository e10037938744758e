/* Reads Host, and says whether its name is our own. */
#include "reduction_server/transport/host_header.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

int smd_host_header_name(const char *host, char name[SMD_HOST_HEADER_NAME_SIZE])
{
	const char *start = *host == '[' ? host + 1 : host;
	size_t length = strcspn(start, *host == '[' ? "]" : ":");
	const char *rest = start + length + (*host == '[' && start[length] == ']');

	if (length == 0 || length >= SMD_HOST_HEADER_NAME_SIZE ||
		(*host == '[' && start[length] != ']') ||
		(*rest && (*rest != ':' || rest[1 + strspn(rest + 1, "0123456789")]))) {
		return -EINVAL;
	}
	memcpy(name, start, length);
	name[length] = '\0';
	return 0;
}

bool smd_host_header_is_own(const char *name, const char *const *names, size_t count)
{
	unsigned char address[sizeof(struct in6_addr)];

	if (inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1 ||
		strcasecmp(name, "localhost") == 0) {
		return true;
	}
	for (size_t i = 0; i < count; i++) {
		if (strcasecmp(name, names[i]) == 0) {
			return true;
		}
	}
	return false;
}
