/*
 * The page that --help prints: usage, what the command does, and its options in groups, aligned to
 * the width of the terminal.
 */
#ifndef SMD_BASE_HELP_PAGE_H
#define SMD_BASE_HELP_PAGE_H

#include <stdio.h>

#include "reduction_server/base/options.h"

/* Columns of the terminal that the file is; 80 where it is none. */
int smd_help_width(FILE *file);

/* Writes paragraphs, which blank lines part, in lines of that width; a line that begins with a
 * blank stays as it is. */
void smd_help_text(FILE *out, int width, const char *text);

/* Writes "  name   text" with the text in a column of its own, `left` columns wide before it; a
 * longer name has a line of its own. */
void smd_help_row(FILE *out, int width, int left, const char *name, const char *text);

void smd_help_page(FILE *out, int width, const struct smd_command *command);

#endif
