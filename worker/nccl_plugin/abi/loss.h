/*
 * Ends a process whose NCCL cannot go on from a failure.
 *
 * NCCL 2.26.2 to 2.27.7 drop what a network's functions return to their progress thread
 * (progressOps() in proxy.cc), so the program would wait for ever for what was lost. 2.23.4 to 2.25.1
 * tell the program, but their progress thread goes on asking, and no abort ends it
 * (ncclProxyProgress() in proxy.cc), so ncclCommAbort() does not return. With these the process ends
 * by SIGABRT some seconds after NCCL was told, unless NCCL closes what has failed before.
 * SUMMAND_NCCL_ON_LOSS says otherwise: "wait" never ends it, "abort" does so with every version.
 *
 * From any thread.
 */
#ifndef SMD_NCCL_PLUGIN_ABI_LOSS_H
#define SMD_NCCL_PLUGIN_ABI_LOSS_H

#include "reduction_server/base/error.h"

/* Reads SUMMAND_NCCL_ON_LOSS. 0, or -EINVAL with a text. */
int smd_loss_read(struct smd_error *error);

enum { SMD_NCCL_UNHEARD_FROM = 22300 }; /* of smd_nccl_version() */

/* NCCL is one of those versions: the tables that only they take are in use, or it says so, or it
 * may be one by its tables and says nothing. */
void smd_loss_is_unheard(void);

/* NCCL gets an error for that communicator, for the first time. */
void smd_loss_tell(const void *comm, const char *text);

/* It is closed, whether or not it had failed. */
void smd_loss_close(const void *comm);

/* From the error to the end. */
extern unsigned smd_loss_patience_ms;

#endif
