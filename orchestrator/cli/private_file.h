/*
 * A file of a job, which holds what its spec does, secrets included: it is its owner's alone.
 */
#ifndef SMD_CLI_PRIVATE_FILE_H
#define SMD_CLI_PRIVATE_FILE_H

#include <stdio.h>

/* Creates the file, or empties it. NULL with errno. */
FILE *smd_private_file_create(const char *path, int is_program);

#endif
