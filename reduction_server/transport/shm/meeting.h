/*
 * How two processes of a host hand over memory: one listens on a Unix socket in no file system, the
 * other connects to it by its name, says a secret, and passes the memory's descriptor.
 *
 * The name is no secret, as everybody of the network namespace can list them. Nothing here waits.
 */
#ifndef SMD_TRANSPORT_SHM_MEETING_H
#define SMD_TRANSPORT_SHM_MEETING_H

#include <stdint.h>

#include "reduction_server/base/error.h"

#define SMD_SHM_NAME_SIZE   8
#define SMD_SHM_SECRET_SIZE 32

struct shm_meeting {
	uint8_t name[SMD_SHM_NAME_SIZE];
	uint8_t secret[SMD_SHM_SECRET_SIZE];
};

/* Draws a meeting, and listens: the descriptor, or -errno with a text. */
int smd_shm_meeting_open(struct shm_meeting *meeting, struct smd_error *error);

/* Connects, and passes that descriptor: the socket's, which is connected, or -errno with a text. */
int smd_shm_meeting_pass(const struct shm_meeting *meeting, int memory, struct smd_error *error);

/* Takes what has been passed: the socket that it came by, and the memory. -errno with a text:
 * nobody who knows the secret has been there. */
int smd_shm_meeting_take(
	const struct shm_meeting *meeting, int listener, int *memory, struct smd_error *error);

#endif
