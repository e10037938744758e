/*
 * Finds out what address a server's name stands for, without keeping the progress engine waiting: a
 * resolver that does not answer takes a minute to say so.
 *
 * Each lookup has a thread of its own, which ends with it, or, when nobody wants to know any more,
 * as soon as the resolver lets it.
 */
#ifndef SMD_LIBSUMMAND_LOOKUP_H
#define SMD_LIBSUMMAND_LOOKUP_H

#include "worker/libsummand/progress.h"

struct smd_lookup;

/* On the owner: 0 and an address ("10.0.0.5:2222"), or -errno and a text. */
typedef void smd_lookup_done(void *arg, int err, const char *said);

/* On the owner: looks up "host:port", and tells `done` once. 0 or -errno, and then it is not told. */
int smd_lookup_begin(struct smd_progress *progress, const char *address, smd_lookup_done *done,
	void *arg, struct smd_lookup **out);

/* `done` is not told any more. After smd_progress_end(), which ends what the owner does. */
void smd_lookup_abandon(struct smd_lookup *lookup);

#endif
