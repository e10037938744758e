/* Takes the job's guard, and runs the job in its child. */
#include "orchestrator/runner/guarded.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/runner/guard.h"
#include "reduction_server/base/printable.h"

#define EXIT_TERMINATED 143
#define CODE_CANCELLED  1 /* google.rpc.Code */
#define CODE_UNKNOWN    2

/* Nothing has been started, and nothing has been recorded yet. The code is google.rpc.Code. */
static void end_entry(struct smd_entry *entry, const char *state, int code, const char *reason)
{
	char now[SMD_TIMESTAMP_SIZE];
	const struct smd_entry_change change = {
		.state = state, .end_time = now, .error_code = code, .error_message = reason};

	smd_timestamp(now);
	if (entry) {
		smd_entry_write(entry, &change);
	}
}

/* In the guard and in the runner, which does not return. */
int smd_guarded_run(const struct smd_jobdir *dir, struct smd_entry *entry, unsigned grace_s,
	smd_guarded_fn *run, void *arg, struct smd_error *error)
{
	int exit_code = EXIT_FAILURE;
	pid_t guard;
	int ret;

	if (entry && smd_entry_take(entry) == 1) {
		end_entry(entry, "JOB_STATE_CANCELLED", CODE_CANCELLED, "The job was cancelled.");
		return EXIT_TERMINATED;
	}
	ret = smd_guard_open(dir, entry, grace_s, &guard, &exit_code);
	if (ret == 0) {
		ret = run(arg, guard, error);
		if (ret < 0) {
			smd_print_line(stderr, "summand: %s\n", error->text);
			end_entry(entry, "JOB_STATE_FAILED", CODE_UNKNOWN, error->text);
		}
		exit(ret < 0 ? EXIT_FAILURE : ret);
	}
	return ret == -ECHILD ? exit_code
			      : smd_error_set(error, -ret, "runner: %s", strerror(-ret));
}
