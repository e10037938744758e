/* Gives the bytes of a fuzz input the form that a parser takes. */
#include "tests/fuzz/input.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void must_hold(int condition)
{
	if (!condition) {
		abort();
	}
}

void check_outcome(int ret, const struct smd_error *error)
{
	must_hold(ret <= 0 && (ret == 0) == (error->text[0] == '\0'));
}

uint8_t *input_exact(const uint8_t *bytes, size_t length)
{
	uint8_t *exact = malloc(length ? length : 1);

	must_hold(exact != NULL);
	if (length) {
		memcpy(exact, bytes, length);
	}
	return exact;
}

char *input_text(const uint8_t *bytes, size_t length)
{
	char *text = strndup(length ? (const char *)bytes : "", length);

	must_hold(text != NULL);
	return text;
}

int input_lines(char *text, char **lines, int most)
{
	int n = 0;

	while (text && n < most) {
		lines[n++] = strsep(&text, "\n");
	}
	return n;
}

const char *input_file(const uint8_t *bytes, size_t length)
{
	static char path[64];
	static int fd = -1;

	if (fd < 0) {
		fd = memfd_create("input", MFD_CLOEXEC);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	}
	must_hold(fd >= 0 && ftruncate(fd, 0) == 0);
	must_hold(pwrite(fd, bytes, length, 0) == (ssize_t)length);
	return path;
}

static FILE *out;
static FILE *err;

void input_mute(void)
{
	static FILE *nowhere;

	nowhere = nowhere ? nowhere : fopen("/dev/null", "w");
	must_hold(nowhere != NULL);
	out = stdout;
	err = stderr;
	stdout = nowhere;
	stderr = nowhere;
}

void input_unmute(void)
{
	stdout = out;
	stderr = err;
}
