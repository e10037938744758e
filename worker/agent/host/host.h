/*
 * The agent of a host: it starts what the runner says, hands on what comes of it, and leaves
 * nothing when the runner is gone (specs/design/agent-protocol.md).
 */
#ifndef SMD_AGENT_HOST_HOST_H
#define SMD_AGENT_HOST_HOST_H

struct smd_host_options {
	int is_host;
	const char *number_from; /* a variable whose value is added to the host's number; or NULL */
};

/* Reads the invitation from standard input, and works until the runner is done or gone. The
 * program's exit code. */
int smd_host_run(const struct smd_host_options *options);

#endif
