/*
 * Texts for a terminal as well as for programs: foreign text in them steers no terminal.
 */
#ifndef SMD_JOB_SHOWN_H
#define SMD_JOB_SHOWN_H

#include <jansson.h>
#include <stdio.h>

/* A document as text, which the caller frees. In its strings \u202e and the like stand for what is
 * not printable (base/printable.h). `flags` are jansson's. NULL: out of memory. */
char *smd_shown_json(const json_t *document, size_t flags);

/* Replaces what is not printable by \uXXXX, in a text that has it only where that means the same,
 * such as JSON. The caller frees the result. NULL: out of memory. */
char *smd_shown_escape(const char *text);

/* Collects a text of several lines, which is made printable and printed when it is closed. */
struct smd_shown_text {
	FILE *file; /* to write to; NULL: out of memory */
	char *text;
	size_t length;
};

void smd_shown_open(struct smd_shown_text *shown);
/* The text, which the caller frees. NULL: out of memory. */
char *smd_shown_take(struct smd_shown_text *shown);
/* Prints it. */
void smd_shown_print(struct smd_shown_text *shown, FILE *out);

#endif
