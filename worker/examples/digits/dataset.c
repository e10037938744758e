/* Reads labelled images from a text file, and believes nothing that it has not checked. */
#include "worker/examples/digits/dataset.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#define LINE_LENGTH (DIGITS_PIXELS + 2) /* the pixels, a space, the label */
#define COUNT_MAX   1000000

/* The digit's value in base 17, or -1. */
static int base17(char c)
{
	if (c >= '0' && c <= '9') {
		return c - '0';
	}
	if (c >= 'a' && c <= 'g') {
		return c - 'a' + 10;
	}
	return -1;
}

/* On -EINVAL the text says what the line must hold. */
static int parse_line(
	const char *line, size_t length, float *pixels, uint8_t *label, struct smd_error *error)
{
	if (length != LINE_LENGTH) {
		return smd_error_set(
			error, EINVAL, "must be %d characters long, got %zu", LINE_LENGTH, length);
	}
	for (int i = 0; i < DIGITS_PIXELS; i++) {
		int value = base17(line[i]);

		if (value < 0) {
			return smd_error_set(error, EINVAL,
				"column %d: must be a pixel 0 to 9 or a to g, got 0x%02x", i + 1,
				(unsigned char)line[i]);
		}
		pixels[i] = (float)value / 16.0f;
	}
	if (line[DIGITS_PIXELS] != ' ' || line[DIGITS_PIXELS + 1] < '0' ||
		line[DIGITS_PIXELS + 1] > '9') {
		return smd_error_set(error, EINVAL,
			"must end with a space and a label 0 to 9, got \"%s\"",
			line + DIGITS_PIXELS);
	}
	*label = (uint8_t)(line[DIGITS_PIXELS + 1] - '0');
	return 0;
}

/* Makes room for one more example. */
static int grow(struct digits_dataset *dataset, size_t *capacity)
{
	size_t wanted = *capacity ? 2 * *capacity : 64;
	void *pixels;
	void *labels;

	if (dataset->count < *capacity) {
		return 0;
	}
	pixels = realloc(dataset->pixels, wanted * sizeof(*dataset->pixels));
	if (!pixels) {
		return -ENOMEM;
	}
	dataset->pixels = pixels;
	labels = realloc(dataset->labels, wanted * sizeof(*dataset->labels));
	if (!labels) {
		return -ENOMEM;
	}
	dataset->labels = labels;
	*capacity = wanted;
	return 0;
}

static int read_lines(
	FILE *file, const char *path, struct digits_dataset *dataset, struct smd_error *error)
{
	struct smd_error reason = {""};
	char *line = NULL;
	size_t line_size = 0;
	size_t capacity = 0;
	ssize_t length;
	int err = 0;

	for (int number = 1; !err && (length = getline(&line, &line_size, file)) >= 0; number++) {
		if (length > 0 && line[length - 1] == '\n') {
			line[--length] = '\0';
		}
		if (line[0] == '#') {
			continue;
		}
		err = dataset->count < COUNT_MAX ? grow(dataset, &capacity) : -EFBIG;
		if (err) {
			smd_error_set(error, -err, "%s:%d: no room for another image: %s", path,
				number, strerror(-err));
			break;
		}
		err = parse_line(line, (size_t)length, dataset->pixels[dataset->count],
			&dataset->labels[dataset->count], &reason);
		if (err) {
			smd_error_set(error, -err, "%s:%d: %s", path, number, reason.text);
		}
		dataset->count++;
	}
	if (!err && ferror(file)) {
		err = smd_error_set(error, EIO, "%s: cannot be read", path);
	}
	free(line);
	return err;
}

int digits_dataset_load(const char *path, struct digits_dataset *out, struct smd_error *error)
{
	struct digits_dataset dataset = {0};
	FILE *file = fopen(path, "re");
	int err;

	if (!file) {
		err = errno;
		return smd_error_set(error, err, "%s: cannot be opened: %s", path, strerror(err));
	}
	err = read_lines(file, path, &dataset, error);
	if (!err && dataset.count == 0) {
		err = smd_error_set(error, EINVAL, "%s: must hold images, got none", path);
	}
	fclose(file);
	if (err) {
		digits_dataset_free(&dataset);
		return err;
	}
	*out = dataset;
	return 0;
}

void digits_dataset_free(struct digits_dataset *dataset)
{
	free(dataset->pixels);
	free(dataset->labels);
	*dataset = (struct digits_dataset){0};
}
