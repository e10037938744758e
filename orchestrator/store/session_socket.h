/*
 * The socket in a job's directory by which others ask its runner for a session in a replica
 * (specs/design/runner.md, "Sessions"). Only who may enter the directory reaches it.
 */
#ifndef SMD_STORE_SESSION_SOCKET_H
#define SMD_STORE_SESSION_SOCKET_H

#include "reduction_server/base/error.h"

#define SMD_SESSION_SOCKET "sessions"

/* Listens in the directory that is open as `folder`, in place of what is there under that name. A
 * non-blocking descriptor or -errno. */
int smd_session_socket_listen(int folder);

/* Connects to the runner of the job with that directory. A non-blocking descriptor, or -errno with a
 * text. */
int smd_session_socket_connect(const char *directory, struct smd_error *error);

#endif
