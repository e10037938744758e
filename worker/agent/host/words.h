/* The words of a command line that is being written. */
#ifndef SMD_AGENT_HOST_WORDS_H
#define SMD_AGENT_HOST_WORDS_H

#include <stddef.h>

/* `argv` has place for all words and a NULL after them. */
struct smd_words {
	char **argv;
	size_t count;
	int failed; /* out of memory */
};

void smd_words_add(struct smd_words *words, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
