/* What TLS is used with: its version, ciphers, and the secrets of jobs in the place of
 * certificates. */
#include <errno.h>
#include <openssl/err.h>
#include <openssl/rand.h>
#include <string.h>
#ifdef __aarch64__
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include "reduction_server/transport/tcp/tls.h"
#include "reduction_server/transport/tcp/tls_lane.h"
#include "reduction_server/wire/openssl.h"

#define SECURITY_LEVEL 2 /* 112 bits: all that is used here has 128 */

static bool processor_has_aes(void)
{
#if defined(__x86_64__) || defined(__i386__)
	return __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul");
#elif defined(__aarch64__)
	return (getauxval(AT_HWCAP) & HWCAP_AES) && (getauxval(AT_HWCAP) & HWCAP_PMULL);
#else
	return false;
#endif
}

/* Whichever of the two ciphers is agreed on: both use the hash that the secret is bound to. */
static SSL_SESSION *session_create(SSL *ssl, const uint8_t secret[SMD_LANE_SECRET_SIZE])
{
	static const uint8_t aes_128_gcm_sha256[] = {0x13, 0x01};
	const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, aes_128_gcm_sha256);
	SSL_SESSION *session = SSL_SESSION_new();

	if (!session || !cipher || !SSL_SESSION_set_cipher(session, cipher) ||
		!SSL_SESSION_set1_master_key(session, secret, SMD_LANE_SECRET_SIZE) ||
		!SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION)) {
		SSL_SESSION_free(session);
		return NULL;
	}
	return session;
}

/* At the end that connects: the secret and its name. */
static int offer_secret(SSL *ssl, const EVP_MD *md, const unsigned char **identity, size_t *length,
	SSL_SESSION **out)
{
	const struct tcp_lane *tcp = SSL_get_app_data(ssl);
	const struct smd_lane_key *key = &tcp->tls->key;

	(void)md;
	*out = session_create(ssl, key->secret);
	*identity = (const unsigned char *)key->identity;
	*length = strlen(key->identity);
	return *out != NULL;
}

/*
 * At the other: the secret of that name. Where there is none, one that nobody knows takes its
 * place, so that a stranger cannot tell which names there are.
 */
static int find_secret(SSL *ssl, const unsigned char *identity, size_t length, SSL_SESSION **out)
{
	const struct smd_lane_keys *keys = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
	const struct tcp_lane *tcp = SSL_get_app_data(ssl);
	uint8_t secret[SMD_LANE_SECRET_SIZE];
	char name[SMD_LANE_IDENTITY_MAX + 1] = "";

	if (length <= SMD_LANE_IDENTITY_MAX && !memchr(identity, '\0', length)) {
		memcpy(name, identity, length);
	}
	if (!keys->find(keys->owner, name, secret)) {
		tcp->tls->unknown = true;
		if (RAND_bytes_ex(smd_openssl_library(), secret, sizeof(secret), 0) != 1) {
			return 0;
		}
	}
	*out = session_create(ssl, secret);
	OPENSSL_cleanse(secret, sizeof(secret));
	return *out != NULL;
}

/* OpenSSL before 3.3 knows no "if it is there" in a list. */
static bool context_set_groups(SSL_CTX *context)
{
	return SSL_CTX_set1_groups_list(context, "X25519:P-256") ||
	       SSL_CTX_set1_groups_list(context, "P-256");
}

/*
 * OpenSSL's configuration file has a section that counts for every context of the process, also for
 * one of another library context. So all that it can change and that matters here is set.
 */
static bool context_set_up(SSL_CTX *context)
{
	/* The end that connects decides the order. */
	const char *ciphers = processor_has_aes()
				      ? "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256"
				      : "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256";

	SSL_CTX_set_security_level(context, SECURITY_LEVEL);
	SSL_CTX_clear_options(context, SSL_CTX_get_options(context));
	SSL_CTX_set_options(
		context, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION | SSL_OP_ENABLE_MIDDLEBOX_COMPAT);
	SSL_CTX_set_block_padding(context, 0);
	SSL_CTX_set_verify(context, SSL_VERIFY_NONE, NULL);
	SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
	/* A partial write returns after its record; see tls_stream.c. */
	SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE);
	SSL_CTX_clear_mode(context, SSL_MODE_AUTO_RETRY);
	return SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) &&
	       SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) &&
	       SSL_CTX_set_ciphersuites(context, ciphers) && context_set_groups(context) &&
	       SSL_CTX_set_num_tickets(context, 0);
}

/* The first error is the cause. */
static void tell_why(struct smd_error *error)
{
	unsigned long code = ERR_peek_error();
	const char *text = code ? ERR_reason_error_string(code) : "out of memory";

	smd_error_set(error, ENOTSUP,
		"TLS: OpenSSL cannot do TLS 1.3 with a pre-shared key, X25519 or P-256, and "
		"AES-128-GCM or ChaCha20-Poly1305: %s",
		text ? text : "it does not say why");
}

SSL_CTX *smd_tls_context_create(const struct smd_lane_keys *keys, struct smd_error *error)
{
	OSSL_LIB_CTX *library = smd_openssl_library();
	SSL_CTX *context;

	ERR_clear_error();
	context = library ? SSL_CTX_new_ex(
				    library, NULL, keys ? TLS_server_method() : TLS_client_method())
			  : NULL;
	if (!context || !context_set_up(context) || !SSL_CTX_set_app_data(context, (void *)keys)) {
		tell_why(error);
		SSL_CTX_free(context);
		ERR_clear_error();
		return NULL;
	}
	if (keys) {
		SSL_CTX_set_psk_find_session_callback(context, find_secret);
	} else {
		/* No certificate is good: nobody is trusted who does not know the secret. */
		SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
		SSL_CTX_set_psk_use_session_callback(context, offer_secret);
	}
	return context;
}

void smd_tls_context_free(SSL_CTX *context)
{
	SSL_CTX_free(context);
}
