/* Prints how the trials of a tuning job go on, and a table of them. */
#include <errno.h>
#include <event2/event.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "orchestrator/runner/lines.h"
#include "orchestrator/runner/terminal_text.h"
#include "orchestrator/tuning/study_run.h"
#include "orchestrator/tuning/trial_output.h"
#include "reduction_server/base/clock.h"
#include "reduction_server/base/printable.h"

#define STATUS_NS    500000000
#define WIDTH_MAX    512
#define WORDS_MAX    (2 * SMD_OUTLET_MAX) /* kept of lines that are not the trials' */
#define LINE_SIZE    256
#define HEAD_SIZE    64
#define CELL_MAX     40 /* characters of a parameter's column */
#define REASON_WIDTH 60

int smd_study_run_open_output(struct smd_study_run *run)
{
	int ret = smd_outlet_open(&run->out, STDOUT_FILENO);

	if (ret) {
		return ret;
	}
	run->has_status_line = smd_console_obeys(STDOUT_FILENO);
	run->is_colored = smd_console_is_colored(run->runner.options->color, STDOUT_FILENO);
	run->base = event_base_new();
	ret = run->base ? smd_outlet_attach(&run->out, run->base) : -ENOMEM;
	if (ret) {
		smd_study_run_close_output(run);
	}
	return ret;
}

void smd_study_run_close_output(struct smd_study_run *run)
{
	smd_outlet_abandon(&run->out);
	smd_outlet_close(&run->out);
	if (run->base) {
		event_base_free(run->base);
	}
}

/* What nobody reads for long is left out here: the log has it. */
static void show(struct smd_study_run *run, const char *text)
{
	if (run->out.drops && evbuffer_get_length(run->out.kept) > WORDS_MAX) {
		run->out.dropped++;
		return;
	}
	smd_outlet_add(&run->out, text, strlen(text));
	smd_outlet_flush(&run->out);
}

static void clear_status(struct smd_study_run *run)
{
	if (run->is_drawn) {
		show(run, "\r\033[K");
		run->is_drawn = 0;
	}
}

static void tell_dropped(struct smd_study_run *run, int is_last)
{
	char text[LINE_SIZE];

	if (run->out.dropped > 0 && (is_last || !run->out.drops)) {
		snprintf(text, sizeof(text),
			"summand: %" PRIu64 " lines are left out here, because nothing was read "
			"for a while; " SMD_STUDY_LOG " and the trials' logs have them\n",
			run->out.dropped);
		run->out.dropped = 0;
		show(run, text);
	}
}

/* Adds the newline. */
static void say_line(struct smd_study_run *run, const char *severity, char *text)
{
	size_t length = strlen(text);

	smd_printable(text);
	smd_stream_say(&run->stream, SMD_STREAM_SERVICE, severity, text, length);
	smd_stream_flush(&run->stream);
	clear_status(run);
	tell_dropped(run, 0);
	text[length] = '\n';
	show(run, text);
}

void smd_study_run_show_line(
	struct smd_study_run *run, unsigned trial, const char *text, size_t length)
{
	char head[HEAD_SIZE];
	char shown[SMD_LINES_BUFFER + 1];
	int head_length = snprintf(head, sizeof(head),
		run->is_colored ? "\033[%smtrial %u\033[0m " : "%.0strial %u ",
		smd_console_color(trial - 1), trial);

	if (run->out.drops) {
		run->out.dropped++;
		return;
	}
	clear_status(run);
	tell_dropped(run, 0);
	smd_outlet_add(&run->out, head, (size_t)head_length);
	if (!run->out.is_terminal) {
		length -= length > 0 && text[length - 1] == '\n';
		smd_outlet_add(&run->out, text, length);
	} else if (length < sizeof(shown)) { /* else the log has it */
		length = smd_terminal_text(shown, text, length);
		smd_outlet_add(&run->out, shown, length);
	}
	smd_outlet_add(&run->out, "\n", 1);
}

void smd_study_run_flush(struct smd_study_run *run)
{
	smd_outlet_flush(&run->out);
}

void smd_study_run_check_room(struct smd_study_run *run)
{
	int is_full = smd_outlet_is_full(&run->out, run->interruptions > 0);

	tell_dropped(run, 0);
	if (is_full == run->is_full) {
		return;
	}
	run->is_full = is_full;
	for (size_t i = 0; i < run->count; i++) {
		if (run->trials[i].output) {
			smd_trial_output_pause(run->trials[i].output, is_full);
		}
	}
}

void smd_study_run_say(struct smd_study_run *run, const char *severity, const char *format, ...)
{
	va_list args;
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	if (out) {
		va_start(args, format);
		vfprintf(out, format, args);
		va_end(args);
		fputc('\0', out); /* the place of the newline */
		if (!fclose(out)) {
			say_line(run, severity, text);
		}
	}
	free(text);
}

/* " --rate=0.1 --layers=3"; NULL: out of memory. */
static char *arguments_of(const struct smd_study *study, const struct smd_trial *trial)
{
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	for (size_t i = 0; out && i < study->nparameters; i++) {
		char *value = isnan(trial->point[i])
				      ? NULL
				      : smd_parameter_text(&study->parameters[i], trial->point[i]);

		if (value) {
			fprintf(out, " --%s=%s", study->parameters[i].id, value);
		}
		free(value);
	}
	if (out) {
		fclose(out);
	}
	return text;
}

void smd_study_run_say_start(struct smd_study_run *run, const struct smd_trial *trial)
{
	char *arguments = arguments_of(run->study, trial);

	smd_study_run_say(
		run, "INFO", "trial %u: started%s", trial->number, arguments ? arguments : "");
	free(arguments);
}

static double seconds_of(const struct smd_trial *trial)
{
	return (double)(trial->ended_ns - trial->started_ns) * 1e-9;
}

/* What else its runner says: the last lines of the program, and where all are. */
static void say_details(struct smd_study_run *run, const struct smd_trial *trial)
{
	const char *line = trial->details ? trial->details : "";

	while (*line) {
		size_t length = strcspn(line, "\n");

		smd_study_run_say(run, "ERROR", "%.*s", (int)length, line);
		line += length + (line[length] == '\n');
	}
}

/* "loss 0.1, accuracy 0.9"; the caller frees it. NULL: it has none. */
static char *values_text(const struct smd_study *study, const struct smd_trial *trial)
{
	char *text = NULL;
	size_t length;
	FILE *out = smd_trial_final(trial, study, 0) ? open_memstream(&text, &length) : NULL;

	for (size_t i = 0; out && i < study->nmetrics; i++) {
		fprintf(out, "%s%s %g", i ? ", " : "", study->metrics[i].id,
			smd_trial_final(trial, study, i)->value);
	}
	if (out) {
		fclose(out);
	}
	return text;
}

void smd_study_run_say_end(struct smd_study_run *run, const struct smd_trial *trial)
{
	const struct smd_measurement *final = smd_trial_final(trial, run->study, 0);
	char *values = values_text(run->study, trial);

	if (!final) {
		smd_study_run_say(run, "ERROR", "trial %u: INFEASIBLE after %.1f s: %s",
			trial->number, seconds_of(trial), trial->reason ? trial->reason : "");
		say_details(run, trial);
		return;
	}
	smd_study_run_say(run, "INFO",
		"trial %u: SUCCEEDED after %.1f s: %s at step %" PRId64 "%s%s", trial->number,
		seconds_of(trial), values ? values : "", final->step,
		trial->stop == SMD_TRIAL_IS_BELOW_MEDIAN ? ", ended early: below the median" : "",
		!smd_study_run_is_best(run, trial) ? ""
		: run->study->nmetrics > 1         ? ", one of the best so far"
						   : ", the best so far");
	free(values);
}

static void add_running(FILE *out, const struct smd_study_run *run)
{
	const char *between = ": ";

	for (size_t i = 0; i < run->count; i++) {
		const struct smd_trial *trial = &run->trials[i];
		const struct smd_measurement *last =
			smd_measurements_final(&trial->metrics[0].measurements, 0);

		if (!smd_trial_runs(trial)) {
			continue;
		}
		fprintf(out, "%s%u", between, trial->number);
		if (last) {
			fprintf(out, " (%g at step %" PRId64 ")", last->value, last->step);
		}
		between = ", ";
	}
}

static int is_ended(const struct smd_trial *trial)
{
	return trial->end_time[0] != '\0';
}

static void write_status(FILE *out, const struct smd_study_run *run)
{
	fprintf(out, "%zu of %d trials ended, %zu run", smd_study_run_count(run, is_ended),
		run->job->max_trial_count, smd_study_run_count(run, smd_trial_runs));
	add_running(out, run);
	if (run->best && run->study->nmetrics == 1) {
		fprintf(out, "; best %g (trial %u)",
			smd_trial_final(run->best, run->study, 0)->value, run->best->number);
	}
}

void smd_study_run_show_status(struct smd_study_run *run)
{
	char line[WIDTH_MAX + 1];
	struct winsize size = {.ws_col = 0};
	FILE *out;

	if (!run->has_status_line || smd_outlet_is_pending(&run->out) ||
		smd_clock_ns() - run->status_ns < STATUS_NS) {
		return;
	}
	run->status_ns = smd_clock_ns();
	ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
	out = fmemopen(line, sizeof(line), "w");
	if (!out) {
		return;
	}
	setvbuf(out, NULL, _IONBF, 0);
	write_status(out, run);
	fclose(out);
	line[WIDTH_MAX] = '\0';
	if (size.ws_col > 1 && size.ws_col <= WIDTH_MAX) {
		line[size.ws_col - 1] = '\0';
	}
	clear_status(run);
	show(run, line);
	run->is_drawn = 1;
}

/* The columns: these and the metrics, then these and the parameters. */
#define FIRST_COLUMNS 2
#define LAST_COLUMNS  2

/* Which of the columns behind the metrics it is. */
static size_t behind_metrics(const struct smd_study_run *run, size_t column)
{
	return column - FIRST_COLUMNS - run->study->nmetrics;
}

static int is_metric(const struct smd_study_run *run, size_t column)
{
	return column >= FIRST_COLUMNS && column < FIRST_COLUMNS + run->study->nmetrics;
}

/* The text of a cell; NULL: nothing. */
static char *raw_cell(const struct smd_study_run *run, const struct smd_trial *trial, size_t column)
{
	const struct smd_measurement *final = smd_trial_final(
		trial, run->study, is_metric(run, column) ? column - FIRST_COLUMNS : 0);
	size_t place = behind_metrics(run, column);
	char *text = NULL;
	int length = 0;

	if (column == 0) {
		length = asprintf(&text, "%u%s", trial->number,
			smd_study_run_is_best(run, trial) ? " *" : "");
	} else if (column == 1) {
		length = asprintf(&text, "%s", smd_trial_state_name(trial->state));
	} else if (is_metric(run, column)) {
		length = final ? asprintf(&text, "%g", final->value) : 0;
	} else if (place == 0) {
		length = final ? asprintf(&text, "%" PRId64, final->step) : 0;
	} else if (place == 1) {
		length = asprintf(&text, "%.1f", seconds_of(trial));
	} else if (!isnan(trial->point[place - LAST_COLUMNS])) {
		text = smd_parameter_text(&run->study->parameters[place - LAST_COLUMNS],
			trial->point[place - LAST_COLUMNS]);
	}
	return length < 0 ? NULL : text;
}

static const char *heading(const struct smd_study_run *run, size_t column)
{
	static const char *const first[FIRST_COLUMNS] = {"TRIAL", "STATE"};
	static const char *const last[LAST_COLUMNS] = {"STEP", "SECONDS"};
	size_t place = behind_metrics(run, column);

	return column < FIRST_COLUMNS   ? first[column]
	       : is_metric(run, column) ? run->study->metrics[column - FIRST_COLUMNS].id
	       : place < LAST_COLUMNS   ? last[place]
					: run->study->parameters[place - LAST_COLUMNS].id;
}

/* As it is shown, of a trial or, if that is NULL, of the headings. The caller frees it. NULL: out
 * of memory. */
static char *cell(const struct smd_study_run *run, const struct smd_trial *trial, size_t column)
{
	char *text = trial ? raw_cell(run, trial, column) : strdup(heading(run, column));

	if (text) {
		smd_printable(text);
		text[smd_terminal_text_fit(text, CELL_MAX)] = '\0';
	}
	return text ? text : strdup("");
}

/* In characters. */
static int width_of(const char *text)
{
	int width = 0;

	for (; *text; text++) {
		width += ((unsigned char)*text & 0xc0) != 0x80;
	}
	return width;
}

static int column_width(const struct smd_study_run *run, size_t column)
{
	int width = width_of(heading(run, column));

	for (size_t i = 0; i < run->count; i++) {
		char *text = cell(run, &run->trials[i], column);

		width = text && width_of(text) > width ? width_of(text) : width;
		free(text);
	}
	return width > CELL_MAX ? CELL_MAX : width;
}

/* One line of cells; `trial` is NULL for the headings. */
static void print_row(
	struct smd_study_run *run, const int *widths, size_t columns, const struct smd_trial *trial)
{
	char *line = NULL;
	size_t length;
	FILE *out = open_memstream(&line, &length);

	for (size_t i = 0; out && i < columns; i++) {
		char *text = cell(run, trial, i);

		fprintf(out, "%s%*s", text ? text : "", widths[i] - width_of(text ? text : "") + 2,
			"");
		free(text);
	}
	if (out && trial && trial->reason) {
		fprintf(out, "%.*s", (int)smd_terminal_text_fit(trial->reason, REASON_WIDTH),
			trial->reason);
	}
	if (out && !fclose(out)) {
		size_t end = strlen(line);

		while (end > 0 && line[end - 1] == ' ') {
			line[--end] = '\0';
		}
		smd_study_run_say(run, "INFO", "%s", line);
	}
	free(line);
}

static void print_best(struct smd_study_run *run)
{
	for (size_t i = 0; i < run->count; i++) {
		const struct smd_trial *trial = &run->trials[i];
		char *arguments, *values;

		if (!smd_study_run_is_best(run, trial)) {
			continue;
		}
		arguments = arguments_of(run->study, trial);
		values = values_text(run->study, trial);
		smd_study_run_say(run, "INFO", "best: trial %u, %s with%s", trial->number,
			values ? values : "", arguments ? arguments : "");
		free(arguments);
		free(values);
	}
}

void smd_study_run_print_table(struct smd_study_run *run)
{
	size_t columns =
		FIRST_COLUMNS + run->study->nmetrics + LAST_COLUMNS + run->study->nparameters;
	int *widths = calloc(columns, sizeof(*widths));

	clear_status(run);
	tell_dropped(run, 1); /* trials print nothing any more */
	if (widths && run->count > 0) {
		for (size_t i = 0; i < columns; i++) {
			widths[i] = column_width(run, i);
		}
		show(run, "\n");
		print_row(run, widths, columns, NULL);
		for (size_t i = 0; i < run->count; i++) {
			print_row(run, widths, columns, &run->trials[i]);
		}
		show(run, "\n");
	}
	free(widths);
	print_best(run);
}
