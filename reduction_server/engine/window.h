/*
 * How many slots a communicator is granted, and how it gives back those that it does not use.
 *
 * A grant cannot be taken back, because a worker may use it at any time. So a communicator that has
 * done nothing for a while is asked (SHRINK), while another one needs memory: each worker answers
 * (SHRUNK) from which ordinal on it will send nothing without a new grant. When all have answered,
 * what they do not use is free. The next result after that grants as much as there is then.
 */
#ifndef SMD_ENGINE_WINDOW_H
#define SMD_ENGINE_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reduction_server/base/error.h"

struct smd_comms;
struct smd_member;
struct smd_resources;
struct smd_server_comm;

/* Buffers that a window reserves: its slots gather, and as many results are on their way. */
size_t smd_window_buffers(const struct smd_server_comm *comm, unsigned window);

/* The window to send with result `ordinal`. */
unsigned smd_window_grant(struct smd_server_comm *comm, uint64_t ordinal);

/* Result `ordinal`, with that window, has left for the rank: what it grants may be used. */
void smd_window_granted(
	struct smd_server_comm *comm, unsigned rank, uint64_t ordinal, unsigned window);

/* Releases what a smaller window needs no more; a slot has become free. */
void smd_window_settle(struct smd_server_comm *comm);

/* Memory is short for somebody: the next looks ask idle communicators for theirs. */
void smd_windows_want(struct smd_resources *resources);

/*
 * There are no `more` buffers for the communicator's streams: for a moment the job's windows give
 * way, if that is enough, which is said. Where streams need not be ranks ask again half a second or
 * a second later.
 */
bool smd_windows_yield(const struct smd_server_comm *comm, size_t more);

/* Asks all communicators of its job that do nothing just now, and into whose buffers no card
 * writes. */
void smd_windows_shrink_now(const struct smd_server_comm *comm);

/* From time to time: where memory was short since the last look, asks all communicators that have
 * done nothing since then. */
void smd_windows_shrink_idle(struct smd_comms *comms);

/* The member's worker will not use ordinals from this one on: SHRUNK. -EPROTO with a text. */
int smd_window_shrunk(struct smd_member *member, uint64_t ordinal, struct smd_error *error);

/* The member is detached. */
void smd_window_forget(struct smd_server_comm *comm, struct smd_member *member);

#endif
