/*
 * Text of a replica's that will be shown, perhaps on a terminal, which must not take orders from
 * it, and kept in records, which are UTF-8.
 */
#ifndef SMD_RUNNER_PRINTABLE_H
#define SMD_RUNNER_PRINTABLE_H

/* Puts ? in the place of every control character but tab, and of every byte that is not part of a
 * UTF-8 character. */
void smd_printable(char *text);

#endif
