/*
 * OpenSSL through a library context of Summand's own. The default one reads OpenSSL's
 * configuration file, which is the program's and not ours, and of another OpenSSL where this is
 * linked into NCCL's plugin.
 */
#ifndef SMD_WIRE_OPENSSL_H
#define SMD_WIRE_OPENSSL_H

#include <stddef.h>
#include <stdint.h>

#define SMD_HMAC_SIZE 32

struct ossl_lib_ctx_st; /* OpenSSL's OSSL_LIB_CTX */

/* Made once, and stays. NULL: it cannot be. */
struct ossl_lib_ctx_st *smd_openssl_library(void);

/* HMAC-SHA256. 0 or -ENOMEM. */
int smd_openssl_hmac(
	const char *key, const uint8_t *bytes, size_t length, uint8_t out[SMD_HMAC_SIZE]);

#endif
