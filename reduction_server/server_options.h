/* The command line of a reduction server: its options, and what must hold of them before it starts.
 */
#ifndef SMD_SERVER_OPTIONS_H
#define SMD_SERVER_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "reduction_server/base/error.h"
#include "reduction_server/base/parse.h"
#include "reduction_server/sandbox/privileges.h"

#define SMD_SERVER_BANDWIDTH_MOST_MBPS 10000000u

struct smd_server_options {
	const char *listen;
	int threads; /* 0: as many as the link takes */
	int pins;    /* them, to processors near the card */
	uint64_t memory_limit;
	uint64_t job_memory_limit;
	uint64_t bandwidth_mbps; /* 0: as the link says, */
	struct smd_share link;   /* of which this is the server's part */
	struct smd_share share;
	unsigned heartbeat_ms;
	int drain_s;
	int forming_s;
	int idle_s;
	const char *transport;
	const char *metrics; /* NULL: nowhere */
	const char *ready_fd;
	const char *token_file;
	int spare;
	int insecure;
	int tls;
	struct smd_user user;
	int seccomp;
	int version;
};

/* Over what is there already, which are the defaults. 0; -ENOEXEC: help was printed; -EINVAL. */
int smd_server_options_parse(
	int argc, char **argv, struct smd_server_options *options, struct smd_error *error);

/* Bandwidth, encryption and exposure, which are more than one option's. *is_open: whoever reaches
 * the server may join. 0 or -errno. */
int smd_server_options_check(
	const struct smd_server_options *options, bool *is_open, struct smd_error *error);

#endif
