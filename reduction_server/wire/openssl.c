/* Makes the library context, and fetches from it. */
#include "reduction_server/wire/openssl.h"

#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static OSSL_LIB_CTX *library;
static EVP_MAC *hmac;

static void prepare(void)
{
	library = OSSL_LIB_CTX_new();
	hmac = library ? EVP_MAC_fetch(library, "HMAC", NULL) : NULL;
}

OSSL_LIB_CTX *smd_openssl_library(void)
{
	pthread_once(&once, prepare);
	return hmac ? library : NULL;
}

int smd_openssl_hmac(
	const char *key, const uint8_t *bytes, size_t length, uint8_t out[SMD_HMAC_SIZE])
{
	char digest[] = "SHA256";
	const OSSL_PARAM settings[] = {
		OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
		OSSL_PARAM_construct_end(),
	};
	size_t written = 0;
	EVP_MAC_CTX *mac;
	bool done;

	if (!smd_openssl_library()) {
		return -ENOMEM;
	}
	mac = EVP_MAC_CTX_new(hmac);
	done = mac && EVP_MAC_init(mac, (const uint8_t *)key, strlen(key), settings) &&
	       EVP_MAC_update(mac, bytes, length) &&
	       EVP_MAC_final(mac, out, &written, SMD_HMAC_SIZE) && written == SMD_HMAC_SIZE;
	EVP_MAC_CTX_free(mac); /* wipes the key */
	return done ? 0 : -ENOMEM;
}
