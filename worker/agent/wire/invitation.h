/*
 * The line that an agent reads first: whose it is, and how it reaches the runner
 * (specs/design/agent-protocol.md, "The connection").
 */
#ifndef SMD_AGENT_WIRE_INVITATION_H
#define SMD_AGENT_WIRE_INVITATION_H

#include <stddef.h>

#include "reduction_server/base/error.h"
#include "worker/agent/wire/link.h"

#define SMD_INVITATION_GRACE_MAX    100000000 /* seconds */
#define SMD_INVITATION_MAX          65536 /* bytes with the newline */
#define SMD_INVITATION_ADDRESSES    16
#define SMD_INVITATION_ADDRESS_SIZE 64
#define SMD_INVITATION_JOB_SIZE     256
#define SMD_INVITATION_VERSION_SIZE 64

struct smd_invitation {
	int protocol;
	char version[SMD_INVITATION_VERSION_SIZE];
	char job[SMD_INVITATION_JOB_SIZE]; /* for people */
	int host;                          /* its number in the allocation */
	int is_local; /* the runner's machine: they share files, and the agent has no own folder */
	int is_tcp; /* the agent connects; else its standard input and output are the stream */
	char addresses[SMD_INVITATION_ADDRESSES][SMD_INVITATION_ADDRESS_SIZE]; /* "10.0.0.5:4187" */
	size_t naddresses;
	unsigned char key[SMD_AGENT_KEY_SIZE]; /* of TCP */
	unsigned silence_s;                    /* 0: it never ends the connection */
	unsigned grace_s; /* that replicas have when the runner is lost; 0: they end at once */
};

/* One line with its newline, which the caller wipes and frees. NULL: out of memory. */
char *smd_invitation_encode(const struct smd_invitation *invitation);

/* Decodes a line. 0; -EPROTO with a text. One of another protocol has protocol and version alone. */
int smd_invitation_decode(
	const char *line, size_t length, struct smd_invitation *out, struct smd_error *error);

#endif
