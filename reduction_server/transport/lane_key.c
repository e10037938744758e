/* Derives the keys of lanes from tokens. */
#include "reduction_server/transport/lane_key.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "reduction_server/wire/openssl.h"

_Static_assert(SMD_LANE_SECRET_SIZE == SMD_HMAC_SIZE, "a secret is an HMAC");

/* Nothing else that is derived from the token begins like this. */
#define LABEL    "summand tls psk"
#define IDENTITY "summand:"

int smd_lane_key_derive(struct smd_lane_key *out, const char *job, const char *token)
{
	char what[sizeof(LABEL) + SMD_LANE_IDENTITY_MAX];
	int written = snprintf(what, sizeof(what), LABEL "%c%s", '\0', job);
	int named = snprintf(out->identity, sizeof(out->identity), IDENTITY "%s", job);

	if (named >= (int)sizeof(out->identity) || written >= (int)sizeof(what)) {
		return -EINVAL;
	}
	return smd_openssl_hmac(token, (const uint8_t *)what, (size_t)written, out->secret);
}

const char *smd_lane_key_job(const char *identity)
{
	const size_t length = sizeof(IDENTITY) - 1;

	return strncmp(identity, IDENTITY, length) == 0 ? identity + length : NULL;
}
