/*
 * Makes a replica's text safe to show on a terminal, which would obey control characters, and to
 * keep in records, which are UTF-8.
 */
#ifndef SMD_RUNNER_PRINTABLE_H
#define SMD_RUNNER_PRINTABLE_H

/* Replaces every control character but tab, and every byte that is not part of a UTF-8 character,
 * by
 * "?". */
void smd_printable(char *text);

#endif
