/*
 * A connection between two programs of one MPI job, over which frames go (specs/design/mpi.md).
 *
 * Both ends prove that they have the job's token, which itself is never sent, and every frame has a
 * code that only they can make. A link blocks; it is one process's own.
 */
#ifndef SMD_MPI_LINK_H
#define SMD_MPI_LINK_H

#include <stddef.h>
#include <stdint.h>

#include "reduction_server/base/error.h"

#define SMD_MPI_FRAME_MAX   (256 * 1024) /* a command of as many bytes as Linux takes, and more */
#define SMD_MPI_SESSION_KEY (2 * 32 + 1)

/* What the end that connects is there for. */
enum smd_mpi_purpose {
	SMD_MPI_START = 'S', /* starts a daemon, and stays with it */
	SMD_MPI_ATTEND = 'A' /* is the chief's launch, and says when it is over */
};

enum smd_mpi_frame_type {
	SMD_MPI_COMMAND = 1, /* a shell's command */
	SMD_MPI_INPUT,
	SMD_MPI_INPUT_END,
	SMD_MPI_OUTPUT,
	SMD_MPI_ERROR,
	SMD_MPI_EXIT,   /* the command's exit code: 4 bytes */
	SMD_MPI_FAILED, /* a rank has failed with this exit code: 4 bytes */
	SMD_MPI_DONE    /* the launcher has ended; the node exits with this code: 4 bytes */
};

struct smd_mpi_link {
	int fd; /* -1: none */
	char sending[SMD_MPI_SESSION_KEY];
	char receiving[SMD_MPI_SESSION_KEY];
	uint64_t sent;
	uint64_t received;
};

struct smd_mpi_frame {
	int type;
	size_t length;
	char bytes[SMD_MPI_FRAME_MAX + 1]; /* with a byte 0 at the end */
};

/* What both ends must have in common. */
struct smd_mpi_party {
	const char *token;
	const char *job;     /* the job's id */
	const char *replica; /* the name of the replica that listens */
};

/* A socket that listens on that address and no other. -errno with the error. */
int smd_mpi_listen(const char *endpoint, struct smd_error *error);

/* Tries once. 0 or -errno with the error; -EACCES: the other end has another token or job. */
int smd_mpi_connect(const char *endpoint, enum smd_mpi_purpose purpose,
	const struct smd_mpi_party *party, struct smd_mpi_link *out, struct smd_error *error);

/* The other side, for a socket that was accepted, which the link owns from now on. */
int smd_mpi_accept(int fd, const struct smd_mpi_party *party, struct smd_mpi_link *out,
	enum smd_mpi_purpose *purpose, struct smd_error *error);

/* 0 or -errno. */
int smd_mpi_send(struct smd_mpi_link *link, int type, const void *bytes, size_t length);
int smd_mpi_send_number(struct smd_mpi_link *link, int type, uint32_t number);

/* 0; -ECONNRESET: the other end is gone; -EPROTO: what came is no frame of it. */
int smd_mpi_receive(struct smd_mpi_link *link, struct smd_mpi_frame *frame);

/* The number of a frame that has one; -EPROTO. */
int smd_mpi_frame_number(const struct smd_mpi_frame *frame, uint32_t *out);

void smd_mpi_link_close(struct smd_mpi_link *link);

#endif
