/*
 * Whether this host's processors are what is waited for: then what lanes carry says nothing of
 * links. Linux counts the time in which some task could have run and did not (/proc/pressure/cpu);
 * where it does not, it is taken for none.
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

#endif
