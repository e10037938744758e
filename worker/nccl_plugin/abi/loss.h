/*
 * Ends a process whose NCCL takes no notice of a failure.
 *
 * NCCL 2.26.2 to 2.27.7 drop what a network's functions return to their progress thread
 * (progressOps() in proxy.cc), so the program would wait for ever for what was lost. There the
 * process ends by SIGABRT some seconds after NCCL was told, unless NCCL closes what has failed
 * before. SUMMAND_NCCL_ON_LOSS says otherwise: "wait" never ends it, "abort" does so with every
 * version.
 *
 * From any thread.
 */
#ifndef SMD_NCCL_PLUGIN_ABI_LOSS_H
#define SMD_NCCL_PLUGIN_ABI_LOSS_H

#include "reduction_server/base/error.h"

/* Reads SUMMAND_NCCL_ON_LOSS. 0, or -EINVAL with a text. */
int smd_loss_read(struct smd_error *error);

/* The tables that only those versions take are in use. */
void smd_loss_is_unheard(void);

/* NCCL gets an error for that communicator, for the first time. */
void smd_loss_tell(const void *comm, const char *text);

/* It is closed, whether or not it had failed. */
void smd_loss_close(const void *comm);

/* From the error to the end. */
extern unsigned smd_loss_patience_ms;

#endif
