/* Keeps standard error in memory. */
#include "tests/unit/allreduce/capture.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "reduction_server/base/clock.h"

#define PATIENCE_NS 60000000000ull

static int kept = -1;
static int shown = -1;

static void show(void)
{
	char bytes[4096];
	off_t at = 0;
	ssize_t got;

	while ((got = pread(kept, bytes, sizeof(bytes), at)) > 0) {
		if (write(shown, bytes, (size_t)got) < 0) {
			return;
		}
		at += got;
	}
}

static void on_abort(int signal_number)
{
	show();
	signal(signal_number, SIG_DFL);
	raise(signal_number);
}

void capture_begin(void)
{
	setenv("SUMMAND_LOG", "debug", 1);
	kept = memfd_create("stderr", MFD_CLOEXEC);
	shown = dup(STDERR_FILENO);
	/* A memfd has no lock on its position: of two threads' lines at once one would be lost. */
	if (kept < 0 || shown < 0 || fcntl(kept, F_SETFL, O_APPEND) < 0 ||
		dup2(kept, STDERR_FILENO) < 0) {
		abort();
	}
	signal(SIGABRT, on_abort);
}

static unsigned lines_with(const char *text, const char *other)
{
	off_t size = lseek(kept, 0, SEEK_END);
	char *all = calloc(1, (size_t)size + 1);
	char *rest = all;
	char *line;
	unsigned found = 0;

	if (!all || pread(kept, all, (size_t)size, 0) < 0) {
		abort();
	}
	while ((line = strsep(&rest, "\n"))) {
		found += strstr(line, text) && (!other || strstr(line, other));
	}
	free(all);
	return found;
}

bool capture_has(const char *text, const char *other)
{
	return lines_with(text, other) > 0;
}

unsigned capture_count(const char *text)
{
	return lines_with(text, NULL);
}

void capture_await(const char *text, const char *other)
{
	uint64_t until = smd_clock_ns() + PATIENCE_NS;

	while (!capture_has(text, other)) {
		if (smd_clock_ns() > until) {
			fprintf(stderr, "nobody has said \"%s\" ... \"%s\"\n", text,
				other ? other : "");
			abort();
		}
		usleep(2000);
	}
}

void capture_end(void)
{
	signal(SIGABRT, SIG_DFL);
	show();
	dup2(shown, STDERR_FILENO);
	close(shown);
	close(kept);
	unsetenv("SUMMAND_LOG");
}

int capture_set_up(void **state)
{
	(void)state;
	capture_begin();
	return 0;
}

int capture_tear_down(void **state)
{
	(void)state;
	capture_end();
	return 0;
}
