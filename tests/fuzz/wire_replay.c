/*
 * Gives files to a fuzz target: as they are, and in some variants each, the same ones in every run.
 *
 *   PROGRAM VARIANTS FILE...
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MAX 65536

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

static uint32_t state = 1;

static uint32_t draw(uint32_t below)
{
	state = state * 1664525u + 1013904223u;
	return (state >> 8) % below;
}

/* One to four bytes changed, or the rest cut off, or a part said twice. */
static size_t vary(const uint8_t *bytes, size_t length, uint8_t out[2 * FILE_MAX])
{
	static const uint8_t edges[] = {0, 1, 0x7f, 0x80, 0xfe, 0xff};
	uint32_t at = draw((uint32_t)length);
	uint32_t kind = draw(8);

	memcpy(out, bytes, length);
	if (kind == 0) {
		return at;
	}
	if (kind == 1) {
		uint32_t part = draw((uint32_t)(length - at)) + 1;

		memcpy(out + at + part, bytes + at, length - at);
		return length + part;
	}
	for (uint32_t n = draw(4) + 1; n > 0; n--) {
		out[draw((uint32_t)length)] =
			draw(2) ? edges[draw(sizeof(edges))] : (uint8_t)draw(256);
	}
	return length;
}

static int replay(const char *path, unsigned variants)
{
	static uint8_t bytes[FILE_MAX];
	static uint8_t varied[2 * FILE_MAX];
	FILE *file = fopen(path, "rb");
	size_t length;

	if (!file) {
		perror(path);
		return -1;
	}
	length = fread(bytes, 1, sizeof(bytes), file);
	fclose(file);
	LLVMFuzzerTestOneInput(bytes, length);
	for (unsigned i = 0; length && i < variants; i++) {
		size_t n = vary(bytes, length, varied);

		LLVMFuzzerTestOneInput(varied, n);
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc < 3) {
		fprintf(stderr, "usage: %s VARIANTS FILE...\n", argv[0]);
		return EXIT_FAILURE;
	}
	for (int i = 2; i < argc; i++) {
		if (replay(argv[i], (unsigned)atoi(argv[1]))) {
			return EXIT_FAILURE;
		}
	}
	printf("%d files replayed, each with %s variants\n", argc - 2, argv[1]);
	return EXIT_SUCCESS;
}
