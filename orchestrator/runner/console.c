/* Shows a run to whoever started it. */
#include "orchestrator/runner/console.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "orchestrator/runner/terminal_text.h"
#include "reduction_server/base/clock.h"
#include "reduction_server/base/log.h"

#define ERASE           "\r\033[K"
#define COLUMNS_DEFAULT 80
#define FRAME_NS        100000000u           /* between two changes of the line at the bottom */
#define REDRAW_NS       20000000u            /* before it is drawn again below a program's lines */
#define WORDS_MAX       (2 * SMD_OUTLET_MAX) /* kept of the runner's own for who does not read */
#define HEAD_SIZE       (SMD_REPLICA_NAME_MAX + 32)

enum { OUT, ERR };

/* Log lines have no argument to be told by whose they are. */
static struct smd_console *log_console;
static int log_shows[SMD_LOG_DEBUG + 1];

int smd_console_obeys(int fd)
{
	const char *term = getenv("TERM");

	return isatty(fd) && term && *term && strcmp(term, "dumb") != 0;
}

int smd_console_is_colored(enum smd_color color, int fd)
{
	const char *refused = getenv("NO_COLOR"); /* no-color.org */

	return color == SMD_COLOR_ALWAYS ||
	       (color == SMD_COLOR_AUTO && smd_console_obeys(fd) && !(refused && *refused));
}

enum smd_view smd_view_of(int stream_logs, int quiet)
{
	return stream_logs ? SMD_VIEW_STREAM : quiet ? SMD_VIEW_PROGRESS : SMD_VIEW_OUTPUT;
}

int smd_view_has_progress(enum smd_view view)
{
	return view == SMD_VIEW_PROGRESS || view == SMD_VIEW_RELAY;
}

int smd_color_set(void *target, const char *word, struct smd_error *error)
{
	static const char *const words[] = {
#define X(name, word) [SMD_COLOR_##name] = word,
		SMD_COLORS(X)
#undef X
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(word, words[i]) == 0) {
			*(enum smd_color *)target = (enum smd_color)i;
			return 0;
		}
	}
	return smd_error_set(error, EINVAL, "must be auto, always or never");
}

/* Whether standard output and standard error are the same file, such as a terminal. */
static int is_one_file(void)
{
	struct stat out, err;

	return fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &err) == 0 &&
	       out.st_dev == err.st_dev && out.st_ino == err.st_ino;
}

static void erase_status(struct smd_console *console)
{
	if (console->is_drawn) {
		smd_outlet_add(&console->err->outlet, ERASE, strlen(ERASE));
		console->is_drawn = 0;
	}
}

static ssize_t write_side(void *cookie, const char *bytes, size_t count)
{
	struct smd_console_side *side = cookie;

	if (side->outlet.drops && evbuffer_get_length(side->outlet.kept) > WORDS_MAX) {
		side->outlet.dropped++;
		return (ssize_t)count;
	}
	if (side->outlet.is_terminal) {
		erase_status(side->console);
	}
	smd_outlet_add(&side->outlet, bytes, count);
	return (ssize_t)count;
}

static int open_side(struct smd_console *console, int number, int fd, enum smd_color color)
{
	struct smd_console_side *side = &console->sides[number];
	const cookie_io_functions_t functions = {.write = write_side};
	int ret = smd_outlet_open(&side->outlet, fd);

	if (ret) {
		return ret;
	}
	side->console = console;
	side->is_colored = smd_console_is_colored(color, fd);
	side->file = fopencookie(side, "w", functions);
	if (!side->file) {
		smd_outlet_close(&side->outlet);
		return -ENOMEM;
	}
	setvbuf(side->file, NULL, _IOLBF, 0);
	return 0;
}

static void close_side(struct smd_console_side *side)
{
	if (side->file) {
		fclose(side->file);
		smd_outlet_close(&side->outlet);
	}
}

static void show_log_line(enum smd_log_level level, const char *component, const char *sentence)
{
	static const char *const names[] = {"error", "warn", "info", "debug"};

	if (log_shows[level]) {
		FILE *file = log_console->view == SMD_VIEW_RELAY ? log_console->out->file
								 : log_console->err->file;

		fprintf(file, "%-5s %s: %s\n", names[level], component, sentence);
	}
}

static void take_log(struct smd_console *console)
{
	for (int level = SMD_LOG_ERROR; level <= SMD_LOG_DEBUG; level++) {
		log_shows[level] = smd_log_enabled((enum smd_log_level)level);
	}
	log_console = console;
	smd_log_set_sink(show_log_line);
}

int smd_console_open(struct smd_console *console, enum smd_view view, enum smd_color color,
	const struct smd_job_status *status)
{
	int ret;

	*console = (struct smd_console){.view = view,
		.status = status,
		.name_width = smd_replica_names_width(status->replicas, status->count),
		.out = &console->sides[OUT],
		.err = &console->sides[is_one_file() ? OUT : ERR],
		.has_status_line = view == SMD_VIEW_OUTPUT && smd_console_obeys(STDERR_FILENO)};
	ret = open_side(console, OUT, STDOUT_FILENO, color);
	if (!ret && console->err != console->out) {
		ret = open_side(console, ERR, STDERR_FILENO, color);
	}
	if (ret) {
		close_side(console->out);
		return ret;
	}
	take_log(console);
	return 0;
}

int smd_console_attach(struct smd_console *console, struct event_base *base)
{
	int ret = smd_outlet_attach(&console->out->outlet, base);

	return ret || console->err == console->out ? ret
						   : smd_outlet_attach(&console->err->outlet, base);
}

void smd_console_detach(struct smd_console *console)
{
	smd_outlet_detach(&console->out->outlet);
	smd_outlet_detach(&console->err->outlet);
}

/* Progress takes the place of the programs' output. */
FILE *smd_console_words(const struct smd_console *console)
{
	return smd_view_has_progress(console->view) ? console->out->file : console->err->file;
}

/* Whether there is room for one more line. */
static int begin_line(struct smd_console_side *side)
{
	if (side->outlet.drops) {
		side->outlet.dropped++;
		return 0;
	}
	if (side->outlet.is_terminal) {
		erase_status(side->console);
	}
	return 1;
}

/* Adds a text as a line of its own. */
static void end_line(struct smd_console_side *side, const char *text, size_t length)
{
	char small[SMD_LINES_BUFFER + 1];
	char *shown = small;

	if (side->outlet.is_terminal) {
		shown = length < sizeof(small) ? small : malloc(length + 1);
		if (shown) { /* else the log has it */
			length = smd_terminal_text(shown, text, length);
			smd_outlet_add(&side->outlet, shown, length);
		}
	} else {
		length -= length > 0 && text[length - 1] == '\n';
		smd_outlet_add(&side->outlet, text, length);
	}
	smd_outlet_add(&side->outlet, "\n", 1);
	if (shown != small) {
		free(shown);
	}
}

/* All but red, which looks like an error. */
const char *smd_console_color(size_t index)
{
	static const char *const colors[] = {
		"36", "33", "32", "35", "34", "96", "93", "92", "95", "94"};

	return colors[index % (sizeof(colors) / sizeof(colors[0]))];
}

/* What a reduction server says at work is no output of the user's program; what it warns of is. */
static int is_worth_showing(const struct smd_replica *replica, int is_error, const char *text)
{
	return replica->role != SMD_ROLE_REDUCTION_SERVER ||
	       (is_error && strncmp(text, "info ", 5) != 0 && strncmp(text, "debug ", 6) != 0);
}

void smd_console_say(struct smd_console *console, const struct smd_replica *replica, int is_error,
	const struct smd_line *line)
{
	int is_relay = console->view == SMD_VIEW_RELAY;
	struct smd_console_side *side = is_error || is_relay ? console->err : console->out;
	char head[HEAD_SIZE];
	int length;

	if ((console->view != SMD_VIEW_OUTPUT && !is_relay) ||
		!is_worth_showing(replica, is_error, line->text)) {
		return;
	}
	if (side->outlet.is_terminal && line->is_cut && memchr(line->text, '\r', line->length)) {
		return; /* of a progress bar only the end stays; until then it is the status */
	}
	if (!begin_line(side)) {
		return;
	}
	length = snprintf(head, sizeof(head),
		side->is_colored ? "\033[%sm%-*s |\033[0m " : "%.0s%-*s | ",
		smd_console_color((size_t)(replica - console->status->replicas)),
		console->name_width, replica->name);
	smd_outlet_add(&side->outlet, head, (size_t)length);
	end_line(side, line->text, line->length);
}

void smd_console_stream(struct smd_console *console, const char *head, size_t head_length,
	const char *text, size_t length)
{
	if (console->view == SMD_VIEW_STREAM && begin_line(console->out)) {
		smd_outlet_add(&console->out->outlet, head, head_length);
		end_line(console->out, text, length);
	}
}

static size_t columns_of(const struct smd_outlet *outlet)
{
	struct winsize size = {0};

	return ioctl(outlet->fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col
									    : COLUMNS_DEFAULT;
}

/* The last column stays free: a terminal may begin another line after it. */
static void draw_status(struct smd_console *console)
{
	struct smd_outlet *outlet = &console->err->outlet;
	uint64_t age = smd_clock_ns() - console->drawn_ns;
	char line[SMD_STATUS_LINE_SIZE];

	if (age < (console->is_drawn ? FRAME_NS : REDRAW_NS) || smd_outlet_is_pending(outlet)) {
		return;
	}
	smd_status_line(console->status, columns_of(outlet) - 1, line);
	if (console->is_drawn && strcmp(line, console->drawn) == 0) {
		return;
	}
	erase_status(console);
	smd_outlet_add(outlet, line, strlen(line));
	memcpy(console->drawn, line, sizeof(line));
	console->drawn_ns = smd_clock_ns();
	console->is_drawn = 1;
}

static void tell_dropped(struct smd_console_side *side)
{
	uint64_t count = side->outlet.dropped;

	side->outlet.dropped = 0;
	fprintf(side->file,
		"summand: %" PRIu64 " lines are left out here, because nothing was read "
		"for a while; logs/job.log has them\n",
		count);
}

static void flush_side(struct smd_console_side *side)
{
	fflush(side->file);
	if (side->outlet.dropped && !smd_outlet_drops(&side->outlet)) {
		tell_dropped(side);
	}
	smd_outlet_flush(&side->outlet);
}

static void tell_error(struct smd_console *console)
{
	struct smd_outlet *outlet = &console->out->outlet;

	/* Whoever has closed it knows. */
	if (outlet->error && outlet->error != EPIPE && outlet->error != EBADF) {
		fprintf(console->err->file,
			"summand: standard output: cannot be written: %s; the "
			"job goes on, and its logs are written\n",
			strerror(outlet->error));
	}
	outlet->error = 0;
}

void smd_console_flush(struct smd_console *console)
{
	flush_side(console->out);
	if (console->err == console->out) {
		if (console->has_status_line) {
			draw_status(console);
			smd_outlet_flush(&console->out->outlet);
		}
		return;
	}
	tell_error(console);
	flush_side(console->err);
	if (console->has_status_line) {
		draw_status(console);
		smd_outlet_flush(&console->err->outlet);
	}
}

int smd_console_is_full(struct smd_console *console)
{
	int is_impatient = console->status->interruptions > 0;
	int is_full = smd_outlet_is_full(&console->out->outlet, is_impatient);

	if (console->err != console->out) {
		is_full |= smd_outlet_is_full(&console->err->outlet, is_impatient);
	}
	return is_full;
}

void smd_console_end_output(struct smd_console *console)
{
	erase_status(console);
	console->has_status_line = 0;
	for (int i = OUT; i <= ERR; i++) {
		if (console->sides[i].outlet.dropped) {
			tell_dropped(&console->sides[i]);
		}
	}
}

int smd_console_is_pending(const struct smd_console *console)
{
	return smd_outlet_is_pending(&console->out->outlet) ||
	       (console->err != console->out && smd_outlet_is_pending(&console->err->outlet));
}

void smd_console_abandon(struct smd_console *console)
{
	smd_outlet_abandon(&console->out->outlet);
	smd_outlet_abandon(&console->err->outlet);
}

void smd_console_close(struct smd_console *console)
{
	console->has_status_line = 0;
	smd_console_flush(console);
	smd_log_set_sink(NULL);
	log_console = NULL;
	for (int i = OUT; i <= ERR; i++) {
		close_side(&console->sides[i]);
	}
}
