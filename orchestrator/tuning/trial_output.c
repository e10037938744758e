/* Shows what trials print. */
#include "orchestrator/tuning/trial_output.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "orchestrator/runner/lines.h"

#define READ_SIZE (64 << 10)
#define REST_MAX  (4 << 20) /* read of a trial that has ended, should something still write */

struct smd_trial_output {
	struct smd_study_run *run;
	unsigned number;
	int fd;
	struct event *readable;
	struct smd_lines lines;
};

static void show_line(void *arg, const struct smd_line *line)
{
	struct smd_trial_output *output = arg;

	smd_study_run_show_line(output->run, output->number, line->text, line->length);
}

/* How much there was; 0: nothing now, or nothing any more. */
static size_t read_some(struct smd_trial_output *output, int *has_ended)
{
	char bytes[READ_SIZE];
	ssize_t count = read(output->fd, bytes, sizeof(bytes));

	*has_ended = count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR);
	if (count <= 0) {
		return 0;
	}
	smd_lines_feed(&output->lines, bytes, (size_t)count);
	smd_study_run_flush(output->run);
	return (size_t)count;
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct smd_trial_output *output = arg;
	int has_ended;

	(void)fd;
	(void)what;
	read_some(output, &has_ended);
	if (has_ended) {
		event_del(output->readable);
	}
	smd_study_run_check_room(output->run);
}

struct smd_trial_output *smd_trial_output_open(struct smd_study_run *run, unsigned number, int fd)
{
	struct smd_trial_output *output = calloc(1, sizeof(*output));

	if (output) {
		*output = (struct smd_trial_output){
			.run = run, .number = number, .fd = fd, .lines.take = show_line};
		output->lines.arg = output;
		output->readable =
			event_new(run->base, fd, EV_READ | EV_PERSIST, on_readable, output);
	}
	if (!output || !output->readable || event_add(output->readable, NULL)) {
		close(fd);
		if (output && output->readable) {
			event_free(output->readable);
		}
		free(output);
		return NULL;
	}
	return output;
}

void smd_trial_output_pause(struct smd_trial_output *output, int is_paused)
{
	if (is_paused) {
		event_del(output->readable);
	} else {
		event_add(output->readable, NULL);
	}
}

void smd_trial_output_close(struct smd_trial_output *output)
{
	size_t rest = 0;
	size_t count;
	int has_ended;

	event_free(output->readable);
	do {
		count = read_some(output, &has_ended);
		rest += count;
	} while (count > 0 && rest < REST_MAX);
	smd_lines_finish(&output->lines);
	smd_study_run_flush(output->run);
	close(output->fd);
	free(output->lines.large);
	free(output);
}
