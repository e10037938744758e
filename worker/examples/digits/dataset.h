/*
 * The data set: labelled images of handwritten digits, read from a text file.
 *
 * A line is 64 pixels, each one digit of base 17 (0..9, a..g), a space, and the label; a line that
 * begins with '#' is a comment.
 */
#ifndef DIGITS_DATASET_H
#define DIGITS_DATASET_H

#include <stddef.h>
#include <stdint.h>

#include "reduction_server/base/error.h"

#define DIGITS_PIXELS  64
#define DIGITS_CLASSES 10

struct digits_dataset {
	size_t count;
	float (*pixels)[DIGITS_PIXELS]; /* 0 to 1 */
	uint8_t *labels;                /* 0 to 9 */
};

/* Reads a file; a line that is wrong is named by its number. */
int digits_dataset_load(const char *path, struct digits_dataset *out, struct smd_error *error);
void digits_dataset_free(struct digits_dataset *dataset);

#endif
