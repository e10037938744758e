/*
 * Whether this host's processors are what is waited for: then what lanes carry says nothing of
 * links. Linux counts the time in which some task could have run and did not (/proc/pressure/cpu).
 * Where it does not, as on Red Hat's kernels unless they are booted with psi=1, it still adds up
 * how long each task has waited (/proc/schedstat): of a processor in the mean, which is as much
 * while one task waits, and more while several do. Where there is neither it is taken for none.
 *
 * Any thread. No error.
 */
#ifndef SMD_LIBSUMMAND_PRESSURE_H
#define SMD_LIBSUMMAND_PRESSURE_H

#include <stdint.h>

/* So far, in ns. */
uint64_t smd_pressure_waited_ns(void);

/* The same of the file's text: "some avg10=... total=MICROSECONDS", and other lines. */
uint64_t smd_pressure_parse(const char *text);

/* Of the other file's. */
uint64_t smd_pressure_parse_delays(const char *text);

#endif
