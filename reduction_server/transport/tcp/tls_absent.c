/* In place of TLS where this was built without OpenSSL: no lane is encrypted, and none asks to be.
 */
#include <errno.h>
#include <string.h>

#include "reduction_server/transport/tcp/tls.h"

int smd_tcp_tls_create(struct tcp_lane *tcp, struct ssl_ctx_st *context)
{
	(void)tcp;
	(void)context;
	return -ENOTSUP;
}

void smd_tcp_tls_close(struct tcp_lane *tcp)
{
	(void)tcp;
}

void smd_tcp_tls_move(
	struct tcp_lane *tcp, const uint8_t *payload, size_t length, const uint8_t *moved)
{
	(void)tcp;
	(void)payload;
	(void)length;
	(void)moved;
}

bool smd_tcp_tls_holds(const struct tcp_lane *tcp)
{
	(void)tcp;
	return false;
}

const char *smd_tcp_tls_reason(const struct tcp_lane *tcp, int err)
{
	(void)tcp;
	return strerror(err);
}

int smd_tcp_secure(struct tcp_lane *tcp)
{
	(void)tcp;
	return 0;
}

bool smd_tcp_refuse_tls(struct tcp_lane *tcp, const uint8_t *first)
{
	(void)tcp;
	(void)first;
	return false;
}

struct ssl_ctx_st *smd_tls_context_create(const struct smd_lane_keys *keys, struct smd_error *error)
{
	(void)keys;
	smd_error_set(error, ENOTSUP, "TLS: this was built without OpenSSL");
	return NULL;
}

void smd_tls_context_free(struct ssl_ctx_st *context)
{
	(void)context;
}
