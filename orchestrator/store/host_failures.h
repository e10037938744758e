/*
 * The hosts on which replicas have failed, in all jobs of a state directory: how often in a row, and
 * when last. A host where all went well has no row.
 */
#ifndef SMD_STORE_HOST_FAILURES_H
#define SMD_STORE_HOST_FAILURES_H

#include <stddef.h>
#include <stdint.h>

#include "reduction_server/base/error.h"

/* Counts `failures` more of a host now; *in_a_row is how many there are then. 0, or -errno with a
 * text. */
int smd_host_failures_add(const char *state_dir, const char *host, unsigned failures,
	unsigned *in_a_row, struct smd_error *error);

/* Forgets those of the hosts. 0, or -errno with a text. */
int smd_host_failures_forget(
	const char *state_dir, const char *const *hosts, size_t count, struct smd_error *error);

/* A row; `last_s` is in seconds since 1970. 0 to go on. */
typedef int smd_host_failures_fn(void *arg, const char *host, unsigned in_a_row, int64_t last_s);

/* Calls back with the hosts that have had as many in a row at least, and the last one after that
 * time. 0, what a call returned, or -errno with a text. */
int smd_host_failures_each(const char *state_dir, unsigned in_a_row, int64_t after_s,
	smd_host_failures_fn *take, void *arg, struct smd_error *error);

#endif
