/*
 * The entry of every fuzz target, what it holds the code to, and the forms that parsers take bytes in.
 */
#ifndef SMD_TESTS_FUZZ_INPUT_H
#define SMD_TESTS_FUZZ_INPUT_H

#include <stddef.h>
#include <stdint.h>

#include "reduction_server/base/error.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

/* Ends the program when it does not hold: a promise of our code, never one of the input. */
void must_hold(int condition);

/* A call has returned 0 and no text, or -errno and a text. */
void check_outcome(int ret, const struct smd_error *error);

/* Memory of exactly that length, so that a sanitizer sees a byte that is read past its end. The
 * caller frees it. */
uint8_t *input_exact(const uint8_t *bytes, size_t length);

/* The bytes as a text, which ends at the first NUL of them. The caller frees it. */
char *input_text(const uint8_t *bytes, size_t length);

/* Cuts the text at its newlines, in place: at most `most` lines. Returns how many. */
int input_lines(char *text, char **lines, int most);

/* The path of a file that holds these bytes until the next call. */
const char *input_file(const uint8_t *bytes, size_t length);

/* What is printed to standard output and standard error until then goes nowhere. */
void input_mute(void);
void input_unmute(void);

#endif
