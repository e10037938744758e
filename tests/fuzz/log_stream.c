/*
 * Any bytes at all as what a replica prints, in parts of all sizes: every line becomes lines of the
 * job's stream, of the console, and of the tail that is shown when it fails; a terminal gets none
 * of them with a control character.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "orchestrator/runner/lines.h"
#include "orchestrator/runner/stream.h"
#include "orchestrator/runner/tail.h"
#include "tests/fuzz/input.h"

static char folder[] = "/dev/shm/fuzz-log-stream.XXXXXX";
static struct smd_jobdir dir = {.path = folder, .fd = -1};

static void remove_folder(void)
{
	smd_jobdir_remove(&dir, "job.log");
	must_hold(rmdir(folder) == 0);
}

static void open_folder(void)
{
	must_hold(mkdtemp(folder) != NULL);
	dir.fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	must_hold(dir.fd >= 0);
	atexit(remove_folder);
}

struct output {
	struct smd_stream stream;
	struct smd_console console;
	struct smd_job_status status;
	struct smd_replica replica;
};

static void take(void *arg, const struct smd_line *line)
{
	struct output *output = arg;

	must_hold(line->text[line->length] == '\0' && line->length > 0);
	smd_tail_add(&output->replica.tail, line->text, line->length);
	output->console.view = SMD_VIEW_STREAM;
	smd_stream_say(&output->stream, "workerpool0-0", "INFO", line->text, line->length);
	output->console.view = SMD_VIEW_OUTPUT;
	smd_console_say(&output->console, &output->replica, 0, line);
}

/* What was shown has no control character but tabs and newlines. */
static void check_shown(const char *shown, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		unsigned char c = (unsigned char)shown[i];

		must_hold((c >= 0x20 && c != 0x7f) || c == '\t' || c == '\n');
		must_hold(c != 0xc2 || (unsigned char)shown[i + 1] >= 0xa0); /* U+0080 to U+009F */
	}
}

static void read_output(struct output *output, const uint8_t *bytes, size_t length)
{
	size_t part = length ? 16u * bytes[0] + 1 : 1;
	struct smd_lines *lines = calloc(1, sizeof(*lines));

	must_hold(lines != NULL);
	lines->take = take;
	lines->arg = output;
	for (size_t at = 0; at < length; at += part) {
		smd_lines_feed(
			lines, (const char *)bytes + at, part < length - at ? part : length - at);
	}
	smd_lines_finish(lines);
	free(lines);
}

/* A console at a terminal of which nothing is read. */
static void open_console(struct output *output)
{
	struct smd_console *console = &output->console;

	console->status = &output->status;
	console->out = console->err = &console->sides[0];
	console->out->console = console;
	console->out->outlet.is_terminal = 1;
	console->out->outlet.kept = evbuffer_new();
	must_hold(console->out->outlet.kept != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	struct output output = {.replica = {.name = "workerpool0-0"},
		.status = {.replicas = &output.replica, .count = 1}};
	struct evbuffer *kept;

	if (dir.fd < 0) {
		open_folder();
	}
	open_console(&output);
	kept = output.console.out->outlet.kept;
	must_hold(smd_stream_open(&output.stream, &dir, "job.log", SMD_LOG_LIMIT_DEFAULT,
			  &output.console) == 0);
	read_output(&output, bytes, length);
	smd_stream_flush(&output.stream);
	check_shown((const char *)evbuffer_pullup(kept, -1), evbuffer_get_length(kept));
	smd_tail_print(&output.replica.tail, output.stream.log.file, "  ");
	smd_tail_clear(&output.replica.tail);
	smd_stream_close(&output.stream);
	evbuffer_free(kept);
	return 0;
}
