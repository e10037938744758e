/*
 * TLS 1.3 with a pre-shared key over the socket of a connection, as the lanes of reduction servers
 * have it: both ends prove that they know the key, and agree on others that nobody finds later.
 */
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/agent/wire/link.h"

#define IDENTITY       "summand-agent"
#define SECURITY_LEVEL 2

struct smd_agent_tls {
	SSL_CTX *context;
	SSL *ssl;
	uint8_t key[SMD_AGENT_KEY_SIZE];
};

static SSL_SESSION *session_create(SSL *ssl)
{
	static const uint8_t aes_128_gcm_sha256[] = {0x13, 0x01};
	const struct smd_agent_tls *tls = SSL_get_app_data(ssl);
	const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, aes_128_gcm_sha256);
	SSL_SESSION *session = SSL_SESSION_new();

	if (!session || !cipher || !SSL_SESSION_set_cipher(session, cipher) ||
		!SSL_SESSION_set1_master_key(session, tls->key, sizeof(tls->key)) ||
		!SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION)) {
		SSL_SESSION_free(session);
		return NULL;
	}
	return session;
}

static int offer_key(SSL *ssl, const EVP_MD *md, const unsigned char **identity, size_t *length,
	SSL_SESSION **out)
{
	(void)md;
	*out = session_create(ssl);
	*identity = (const unsigned char *)IDENTITY;
	*length = strlen(IDENTITY);
	return *out != NULL;
}

/* A wrong name gets the key too: without knowing it the other end comes no farther. */
static int find_key(SSL *ssl, const unsigned char *identity, size_t length, SSL_SESSION **out)
{
	(void)identity;
	(void)length;
	*out = session_create(ssl);
	return *out != NULL;
}

static SSL_CTX *context_create(enum smd_agent_end end)
{
	int is_server = end == SMD_AGENT_RUNNER;
	SSL_CTX *context = SSL_CTX_new(is_server ? TLS_server_method() : TLS_client_method());

	if (!context) {
		return NULL;
	}
	SSL_CTX_set_security_level(context, SECURITY_LEVEL);
	SSL_CTX_clear_options(context, SSL_CTX_get_options(context));
	SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION);
	SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_mode(
		context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	SSL_CTX_clear_mode(context, SSL_MODE_AUTO_RETRY);
	/* There are no certificates: no end is trusted that does not know the key. */
	SSL_CTX_set_verify(context, is_server ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
	if (is_server) {
		SSL_CTX_set_psk_find_session_callback(context, find_key);
	} else {
		SSL_CTX_set_psk_use_session_callback(context, offer_key);
	}
	if (!SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) ||
		!SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) ||
		!SSL_CTX_set_ciphersuites(
			context, "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256") ||
		!SSL_CTX_set_num_tickets(context, 0)) {
		SSL_CTX_free(context);
		return NULL;
	}
	return context;
}

int smd_agent_tls_open(struct smd_agent_tls **out, int fd, enum smd_agent_end end,
	const uint8_t key[SMD_AGENT_KEY_SIZE], struct smd_error *error)
{
	struct smd_agent_tls *tls = calloc(1, sizeof(*tls));

	if (tls) {
		memcpy(tls->key, key, sizeof(tls->key));
		tls->context = context_create(end);
		tls->ssl = tls->context ? SSL_new(tls->context) : NULL;
	}
	if (!tls || !tls->ssl || !SSL_set_fd(tls->ssl, fd) || !SSL_set_app_data(tls->ssl, tls)) {
		smd_agent_tls_close(tls);
		ERR_clear_error();
		return smd_error_set(
			error, ENOTSUP, "TLS: OpenSSL cannot do TLS 1.3 with a pre-shared key");
	}
	if (end == SMD_AGENT_RUNNER) {
		SSL_set_accept_state(tls->ssl);
	} else {
		SSL_set_connect_state(tls->ssl);
	}
	*out = tls;
	return 0;
}

void smd_agent_tls_close(struct smd_agent_tls *tls)
{
	if (!tls) {
		return;
	}
	if (tls->ssl && SSL_is_init_finished(tls->ssl)) {
		SSL_shutdown(tls->ssl);
	}
	SSL_free(tls->ssl);
	SSL_CTX_free(tls->context);
	ERR_clear_error();
	explicit_bzero(tls->key, sizeof(tls->key));
	free(tls);
}

int smd_agent_tls_is_secure(const struct smd_agent_tls *tls)
{
	return SSL_is_init_finished(tls->ssl) && SSL_session_reused(tls->ssl);
}

/* What a call of OpenSSL's that has failed means. */
static long failed(
	struct smd_agent_tls *tls, int ret, int *wants_write, char reason[SMD_AGENT_REASON_SIZE])
{
	int err = errno;
	int kind = SSL_get_error(tls->ssl, ret);
	unsigned long code = ERR_peek_error();
	const char *text = code ? ERR_reason_error_string(code) : NULL;
	int is_cut;

	if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE) {
		*wants_write = kind == SSL_ERROR_WANT_WRITE;
		return -EAGAIN;
	}
	if (kind == SSL_ERROR_ZERO_RETURN) {
		return 0;
	}
	is_cut = ERR_GET_REASON(code) == SSL_R_UNEXPECTED_EOF_WHILE_READING ||
		 kind == SSL_ERROR_SYSCALL;
	snprintf(reason, SMD_AGENT_REASON_SIZE, "%s: %s",
		SSL_is_init_finished(tls->ssl) ? "the connection was cut"
		: is_cut		       ? "the connection was cut before TLS was agreed"
					       : "TLS: both ends must know the job's key",
		text  ? text
		: err ? strerror(err)
		      : "the other end closed the connection");
	ERR_clear_error();
	return -EPROTO;
}

/* Both ends agree first. 0 or what to return. */
static long agree(struct smd_agent_tls *tls, int *wants_write, char reason[SMD_AGENT_REASON_SIZE])
{
	int ret;

	if (SSL_is_init_finished(tls->ssl)) {
		return 0;
	}
	ERR_clear_error();
	errno = 0;
	ret = SSL_do_handshake(tls->ssl);
	if (ret != 1) {
		long result = failed(tls, ret, wants_write, reason);

		if (result == 0) {
			snprintf(reason, SMD_AGENT_REASON_SIZE,
				"TLS: the other end closed the connection");
			result = -ECONNRESET;
		}
		return result;
	}
	if (!SSL_session_reused(tls->ssl)) {
		snprintf(reason, SMD_AGENT_REASON_SIZE, "TLS: the job's key must be used");
		return -EPROTO;
	}
	return 0;
}

long smd_agent_tls_read(struct smd_agent_tls *tls, void *bytes, size_t size, int *wants_write,
	char reason[SMD_AGENT_REASON_SIZE])
{
	long ret = agree(tls, wants_write, reason);
	int got;

	if (ret) {
		return ret;
	}
	ERR_clear_error();
	errno = 0;
	got = SSL_read(tls->ssl, bytes, (int)size);
	return got > 0 ? got : failed(tls, got, wants_write, reason);
}

long smd_agent_tls_write(struct smd_agent_tls *tls, const void *bytes, size_t size,
	int *wants_write, char reason[SMD_AGENT_REASON_SIZE])
{
	long ret = agree(tls, wants_write, reason);
	int taken;

	if (ret) {
		return ret;
	}
	ERR_clear_error();
	errno = 0;
	taken = SSL_write(tls->ssl, bytes, (int)size);
	if (taken > 0) {
		return taken;
	}
	ret = failed(tls, taken, wants_write, reason);
	if (ret == 0) {
		snprintf(reason, SMD_AGENT_REASON_SIZE, "the other end closed the connection");
		return -ECONNRESET;
	}
	return ret;
}
