/*
 * A program's line as a terminal may get it: it obeys control characters.
 */
#ifndef SMD_RUNNER_TERMINAL_TEXT_H
#define SMD_RUNNER_TERMINAL_TEXT_H

#include <stddef.h>

/* Leaves colours and other control sequences out, and of a line that was overwritten, as progress
 * bars are, all but the last state; what is not printable becomes "?" (base/printable.h). `shown`
 * has length + 1 bytes. Returns the length of what is shown. */
size_t smd_terminal_text(char *shown, const char *text, size_t length);

/* How much of a text fits into that many columns, in bytes. Characters of two columns count as
 * such; no character is cut. */
size_t smd_terminal_text_fit(const char *text, size_t columns);

#endif
