/* Takes URLs apart. */
#include "orchestrator/client/url.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "reduction_server/base/parse.h"

#define PORT_MAX 65535

/* What may stand in a URL as it is. */
static int is_plain(const char *text)
{
	for (; *text; text++) {
		if (*text <= ' ' || *text > '~' || strchr("\"<>\\^`{|}#@", *text)) {
			return 0;
		}
	}
	return 1;
}

static int take_host(const char *authority, struct smd_url *out)
{
	const char *start = *authority == '[' ? authority + 1 : authority;
	size_t length = strcspn(start, *authority == '[' ? "]" : ":");
	const char *rest = start + length + (*authority == '[' && start[length] == ']');
	uint64_t port;

	if (length == 0 || length >= sizeof(out->host) || (*authority == '[' && rest == start + length) ||
		(*rest && *rest != ':') ||
		(*rest && smd_parse_number(rest + 1, 1, PORT_MAX, &port))) {
		return -EINVAL;
	}
	memcpy(out->host, start, length);
	out->host[length] = '\0';
	snprintf(out->authority, sizeof(out->authority), "%s", authority);
	snprintf(out->endpoint, sizeof(out->endpoint), "%s%s", authority,
		*rest ? "" : out->is_tls ? ":443" : ":80");
	return 0;
}

int smd_url_parse(const char *text, struct smd_url *out, struct smd_error *error)
{
	const char *rest = text;
	char authority[SMD_URL_HOST_SIZE];
	size_t length;

	*out = (struct smd_url){.is_tls = strncmp(text, "https://", 8) == 0};
	if (out->is_tls || strncmp(text, "http://", 7) == 0) {
		rest = strstr(text, "://") + 3;
		length = strcspn(rest, "/?");
		if (length > 0 && length < sizeof(authority) && is_plain(text) &&
			strlen(rest + length) < sizeof(out->path)) {
			memcpy(authority, rest, length);
			authority[length] = '\0';
			snprintf(out->path, sizeof(out->path), "%s", rest + length);
			if (take_host(authority, out) == 0) {
				return 0;
			}
		}
	}
	return smd_error_set(error, EINVAL, "must be http://HOST[:PORT][/PATH] or https://...");
}
