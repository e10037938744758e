/* A build without OpenSSL's TLS: there are plain connections alone. */
#include <errno.h>

#include "worker/agent/wire/link.h"

int smd_agent_tls_open(struct smd_agent_tls **out, int fd, enum smd_agent_end end,
	const uint8_t key[SMD_AGENT_KEY_SIZE], struct smd_error *error)
{
	(void)fd;
	(void)end;
	(void)key;
	*out = NULL;
	return smd_error_set(
		error, ENOTSUP, "TLS: this summand was built without OpenSSL's libssl");
}

void smd_agent_tls_close(struct smd_agent_tls *tls)
{
	(void)tls;
}

long smd_agent_tls_read(struct smd_agent_tls *tls, void *bytes, size_t size, int *wants_write,
	char reason[SMD_AGENT_REASON_SIZE])
{
	(void)tls;
	(void)bytes;
	(void)size;
	(void)wants_write;
	(void)reason;
	return -ENOTSUP;
}

long smd_agent_tls_write(struct smd_agent_tls *tls, const void *bytes, size_t size,
	int *wants_write, char reason[SMD_AGENT_REASON_SIZE])
{
	(void)tls;
	(void)bytes;
	(void)size;
	(void)wants_write;
	(void)reason;
	return -ENOTSUP;
}

int smd_agent_tls_is_secure(const struct smd_agent_tls *tls)
{
	(void)tls;
	return 0;
}
