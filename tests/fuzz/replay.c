/*
 * Gives files, and all files of folders, to a fuzz target: as they are, and in some variants each,
 * the same ones in every run. It stands in for libFuzzer where there is none.
 *
 *   PROGRAM VARIANTS FILE|FOLDER...
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/fuzz/input.h"

#define FILE_MAX (256 << 10)

static uint8_t bytes[FILE_MAX];
static uint8_t varied[2 * FILE_MAX];
static uint32_t state;
static unsigned files;

static uint32_t draw(uint32_t below)
{
	state = state * 1664525u + 1013904223u;
	return (state >> 8) % below;
}

/* One to four bytes changed, or the rest cut off, or a part said twice. */
static size_t vary(size_t length)
{
	static const uint8_t edges[] = {0, 1, 0x7f, 0x80, 0xfe, 0xff};
	uint32_t at = draw((uint32_t)length);
	uint32_t kind = draw(8);

	memcpy(varied, bytes, length);
	if (kind == 0) {
		return at;
	}
	if (kind == 1) {
		uint32_t part = draw((uint32_t)(length - at)) + 1;

		memcpy(varied + at + part, bytes + at, length - at);
		return length + part;
	}
	for (uint32_t n = draw(4) + 1; n > 0; n--) {
		varied[draw((uint32_t)length)] =
			draw(2) ? edges[draw(sizeof(edges))] : (uint8_t)draw(256);
	}
	return length;
}

static int replay(const char *path, unsigned variants)
{
	FILE *file = fopen(path, "rb");
	size_t length;

	if (!file) {
		perror(path);
		return -1;
	}
	length = fread(bytes, 1, sizeof(bytes), file);
	fclose(file);
	LLVMFuzzerTestOneInput(bytes, length);
	state = 1; /* a file's variants do not depend on the files before it */
	for (unsigned i = 0; length && i < variants; i++) {
		size_t n = vary(length);

		LLVMFuzzerTestOneInput(varied, n);
	}
	files++;
	return 0;
}

static int replay_folder(const char *path, unsigned variants)
{
	struct dirent **entries;
	int n = scandir(path, &entries, NULL, alphasort);
	int ret = n < 0 ? -1 : 0;

	for (int i = 0; i < n; i++) {
		char name[4096];

		snprintf(name, sizeof(name), "%s/%s", path, entries[i]->d_name);
		if (ret == 0 && entries[i]->d_name[0] != '.') {
			ret = replay(name, variants);
		}
		free(entries[i]);
	}
	if (n >= 0) {
		free(entries);
	}
	return ret;
}

int main(int argc, char **argv)
{
	if (argc < 3) {
		fprintf(stderr, "usage: %s VARIANTS FILE|FOLDER...\n", argv[0]);
		return EXIT_FAILURE;
	}
	for (int i = 2; i < argc; i++) {
		unsigned variants = (unsigned)atoi(argv[1]);
		struct stat status;

		if (stat(argv[i], &status)) {
			perror(argv[i]);
			return EXIT_FAILURE;
		}
		if (S_ISDIR(status.st_mode) ? replay_folder(argv[i], variants)
					    : replay(argv[i], variants)) {
			return EXIT_FAILURE;
		}
	}
	printf("%u files replayed, each with %s variants\n", files, argv[1]);
	return files ? EXIT_SUCCESS : EXIT_FAILURE;
}
