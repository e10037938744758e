/* Shows a job's progress. */
#include "orchestrator/runner/display.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "orchestrator/runner/terminal_text.h"
#include "reduction_server/base/clock.h"
#include "reduction_server/base/printable.h"

#define FRAME_NS        100000000u
#define ROWS_DEFAULT    24
#define COLUMNS_DEFAULT 80
#define ROLE_WIDTH      16 /* "reduction server" */
#define STATE_WIDTH     9  /* "succeeded" */
#define TIME_WIDTH      8
#define LINE_SIZE       1024

void smd_display_open(struct smd_display *display, const struct smd_console *console,
	struct smd_replica *replicas, size_t count)
{
	int is_brief = !smd_view_has_progress(console->view);

	*display = (struct smd_display){.file = smd_console_words(console),
		.console = console,
		.terminal = !is_brief && smd_console_obeys(STDOUT_FILENO) ? STDOUT_FILENO : -1,
		.is_brief = is_brief,
		.replicas = replicas,
		.count = count,
		.name_width = smd_replica_names_width(replicas, count)};
}

static void erase_frame(struct smd_display *display)
{
	if (display->drawn > 0) {
		fprintf(display->file, "\033[%zuA\033[J", display->drawn);
		display->drawn = 0;
	}
}

static void draw_replica(
	struct smd_display *display, const struct smd_replica *replica, size_t columns)
{
	char line[LINE_SIZE];
	char elapsed[TIME_WIDTH + 8] = "";

	if (replica->started_ns) {
		snprintf(elapsed, sizeof(elapsed), "%.0f s", smd_replica_elapsed(replica));
	}
	snprintf(line, sizeof(line), "%-*s  %-*s  %-*s  %*s  %s", display->name_width,
		replica->name, ROLE_WIDTH, smd_role_name(replica->role), STATE_WIDTH,
		smd_replica_state_meaning(replica->state), TIME_WIDTH, elapsed, replica->status);
	line[smd_terminal_text_fit(line, columns)] = '\0';
	fprintf(display->file, "%s\n", line);
}

/* One line per replica, as many as fit on the screen. */
static void draw_frame(struct smd_display *display)
{
	struct winsize size = {0};
	size_t rows = ROWS_DEFAULT;
	size_t columns = COLUMNS_DEFAULT;
	size_t shown = display->count;

	if (ioctl(display->terminal, TIOCGWINSZ, &size) == 0 && size.ws_row > 4 &&
		size.ws_col > 0) {
		rows = size.ws_row;
		columns = size.ws_col;
	}
	if (shown > rows - 2) {
		shown = rows - 3;
	}
	erase_frame(display);
	for (size_t i = 0; i < shown; i++) {
		draw_replica(display, &display->replicas[i], columns);
	}
	display->drawn = shown;
	if (shown < display->count) {
		fprintf(display->file, "and %zu more\n", display->count - shown);
		display->drawn++;
	}
	fflush(display->file);
	display->drawn_ns = smd_clock_ns();
	display->dirty = 0;
}

/* Display names, addresses and programs are foreign text. */
static __attribute__((format(printf, 2, 0))) void print_line(
	FILE *file, const char *format, va_list args)
{
	char *line;

	if (vasprintf(&line, format, args) >= 0) {
		smd_print_line(file, "%s", line);
		free(line);
	}
}

void smd_display_print(struct smd_display *display, const char *format, ...)
{
	va_list args;

	erase_frame(display);
	va_start(args, format);
	print_line(display->file, format, args);
	va_end(args);
	fflush(display->file);
	display->dirty = 1;
}

void smd_display_change(
	struct smd_display *display, const struct smd_replica *replica, const char *format, ...)
{
	va_list args;

	display->dirty = 1;
	if (display->terminal >= 0 || display->is_brief) {
		return;
	}
	fprintf(display->file, "%-*s  ", display->name_width, replica->name);
	va_start(args, format);
	print_line(display->file, format, args);
	va_end(args);
	fflush(display->file);
}

static void show_statuses(struct smd_display *display, uint64_t now)
{
	uint64_t period = display->terminal >= 0 ? FRAME_NS : SMD_SECOND_NS;

	for (size_t i = 0; i < display->count; i++) {
		struct smd_replica *replica = &display->replicas[i];

		if (replica->status_is_new && now - replica->status_shown_ns >= period) {
			smd_display_change(display, replica, "%s", replica->status);
			replica->status_is_new = 0;
			replica->status_shown_ns = now;
		}
	}
}

void smd_display_tick(struct smd_display *display)
{
	uint64_t now = smd_clock_ns();
	uint64_t age = now - display->drawn_ns;

	show_statuses(display, now);
	if (display->terminal >= 0 && !smd_console_is_pending(display->console) &&
		(age >= SMD_SECOND_NS || (display->dirty && age >= FRAME_NS))) {
		draw_frame(display);
	}
}

void smd_display_close(struct smd_display *display)
{
	if (display->terminal >= 0) {
		draw_frame(display);
		display->drawn = 0;
	}
}
