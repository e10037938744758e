/*
 * The last lines of a stream.
 */
#ifndef SMD_RUNNER_TAIL_H
#define SMD_RUNNER_TAIL_H

#include <stddef.h>
#include <stdio.h>

#define SMD_TAIL_LINES    20
#define SMD_TAIL_LINE_MAX 512 /* longer ones are cut */

struct smd_tail {
	char *lines[SMD_TAIL_LINES]; /* line i of the stream is at i % SMD_TAIL_LINES */
	size_t count;                /* lines seen so far */
};

/* Keeps a copy, without the newline. When memory is short the line is lost. */
void smd_tail_add(struct smd_tail *tail, const char *text, size_t length);

/* Prints the lines, oldest first, each after `indent`. */
void smd_tail_print(const struct smd_tail *tail, FILE *file, const char *indent);

/* Line i of those that are kept, from the oldest; NULL: there is none, or memory was short. */
const char *smd_tail_line(const struct smd_tail *tail, size_t i);

void smd_tail_clear(struct smd_tail *tail);

#endif
