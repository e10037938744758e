/* In place of lane_key.c where this was built without OpenSSL: there are no keys. */
#include <errno.h>

#include "reduction_server/transport/lane_key.h"

int smd_lane_key_derive(struct smd_lane_key *out, const char *job, const char *token)
{
	(void)out;
	(void)job;
	(void)token;
	return -ENOTSUP;
}

const char *smd_lane_key_job(const char *identity)
{
	(void)identity;
	return NULL;
}
