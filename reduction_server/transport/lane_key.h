/*
 * The key that a job's lanes are encrypted with: of the job's token, but not the token.
 */
#ifndef SMD_TRANSPORT_LANE_KEY_H
#define SMD_TRANSPORT_LANE_KEY_H

#include "reduction_server/transport/transport.h"

/* Whoever has the token derives the same. 0, -ENOMEM, or -EINVAL for a job whose name is too long.
 */
int smd_lane_key_derive(struct smd_lane_key *out, const char *job, const char *token);

/* The job that an identity names; NULL: it is none of ours. */
const char *smd_lane_key_job(const char *identity);

#endif
