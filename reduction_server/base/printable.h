/*
 * Makes foreign text safe to show on a terminal, which would obey control characters, to read by
 * lines, and to keep in records, which are UTF-8.
 */
#ifndef SMD_BASE_PRINTABLE_H
#define SMD_BASE_PRINTABLE_H

#include <stdio.h>

/* Replaces by "?": every control character but tab (U+0080 to U+009F too, of which U+009B begins
 * orders), the controls of writing direction, which show text in another order than it has, the
 * line and paragraph separators, and every byte that is not part of a UTF-8 character. */
void smd_printable(char *text);

/* The same for a text of several lines: it keeps their ends. */
void smd_printable_lines(char *text);

/* The first of these in a text of several lines, and its length in bytes; NULL: there is none. */
const char *smd_unprintable(const char *text, size_t *length);

/* Prints one line, made printable; the newline at its end need not be in the format. */
void smd_print_line(FILE *file, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same for several lines, of which no part may hold another's newline. */
void smd_print_lines(FILE *file, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
