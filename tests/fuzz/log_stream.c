/*
 * Any bytes at all as what a replica prints, in parts of all sizes: every line becomes lines of the
 * job's stream, and of the tail that is shown when it fails, without a control character.
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

struct replica {
	struct smd_stream stream;
	struct smd_tail tail;
};

static void take(void *arg, const struct smd_line *line)
{
	struct replica *replica = arg;

	must_hold(line->text[line->length] == '\0' && line->length > 0);
	smd_tail_add(&replica->tail, line->text, line->length);
	smd_stream_say(&replica->stream, "workerpool0-0", "INFO", line->text, line->length);
}

/* What was shown begins with a severity and has no control character but tabs and newlines. */
static void check_shown(const char *shown, size_t length)
{
	must_hold(length == 0 || (shown[0] >= 'A' && shown[0] <= 'Z'));
	for (size_t i = 0; i < length; i++) {
		unsigned char c = (unsigned char)shown[i];

		must_hold((c >= 0x20 && c != 0x7f) || c == '\t' || c == '\n');
		must_hold(c != 0xc2 || (unsigned char)shown[i + 1] >= 0xa0); /* U+0080 to U+009F */
	}
}

static void read_output(struct replica *replica, const uint8_t *bytes, size_t length)
{
	size_t part = length ? 16u * bytes[0] + 1 : 1;
	struct smd_lines *lines = calloc(1, sizeof(*lines));

	must_hold(lines != NULL);
	lines->take = take;
	lines->arg = replica;
	for (size_t at = 0; at < length; at += part) {
		smd_lines_feed(
			lines, (const char *)bytes + at, part < length - at ? part : length - at);
	}
	smd_lines_finish(lines);
	free(lines);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	struct replica replica = {.tail = {.count = 0}};
	size_t size = 0;
	char *shown = NULL;

	if (dir.fd < 0) {
		open_folder();
	}
	must_hold(smd_stream_open(&replica.stream, &dir, "job.log", SMD_LOG_LIMIT_DEFAULT,
			  open_memstream(&shown, &size)) == 0);
	replica.stream.echoes_to_terminal = 1;
	read_output(&replica, bytes, length);
	smd_stream_flush(&replica.stream);
	check_shown(shown, size);
	smd_tail_print(&replica.tail, replica.stream.log.file, "  ");
	smd_tail_clear(&replica.tail);
	fclose(replica.stream.echo);
	smd_stream_close(&replica.stream);
	free(shown);
	return 0;
}
