/*
 * Any bytes at all as what the runner reads back from a job's directory, where a replica may write:
 * an exit record, a replica's own account of its error, and the record of the job.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "orchestrator/runner/obituary.h"
#include "orchestrator/runner/record.h"
#include "tests/fuzz/input.h"
#include "worker/agent/wire/message.h"

/* In memory: each record is put on disk before its name appears. */
static char folder[] = "/dev/shm/fuzz-records.XXXXXX";
static struct smd_jobdir dir = {.path = folder, .fd = -1};

static void remove_folder(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -r %s", folder);
	must_hold(system(command) == 0);
}

static void make_folder(void)
{
	static const char *const names[] = {"exits", "errors", "logs"};

	must_hold(mkdtemp(folder) != NULL);
	atexit(remove_folder);
	dir.fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	must_hold(dir.fd >= 0);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		must_hold(smd_jobdir_make_folder(&dir, names[i]) == 0);
	}
}

static void put(const char *name, const uint8_t *bytes, size_t length)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	must_hold(fd >= 0 && write(fd, bytes, length) == (ssize_t)length);
	close(fd);
}

static void check_end(const struct smd_exit *end)
{
	must_hold(memchr(end->start_time, '\0', sizeof(end->start_time)) != NULL);
	must_hold(memchr(end->end_time, '\0', sizeof(end->end_time)) != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	struct smd_replica replica = {.name = "workerpool0-0", .ended_ns = 1};
	char text[SMD_OBITUARY_SIZE];
	char word[SMD_OBITUARY_SIZE];
	json_t *record;

	if (access(folder, F_OK)) {
		make_folder();
	}
	record = json_loadb((const char *)bytes, length, 0, NULL);
	if (smd_exit_decode(record, &replica.end) == 0) {
		check_end(&replica.end);
	}
	json_decref(record);
	smd_obituary_sentence(&replica, text);
	smd_obituary_word(&replica, word);
	must_hold(text[0] != '\0');
	put("errors/workerpool0-0.json", bytes, length);
	input_mute();
	smd_obituary_print_tail(&replica, &dir, stdout);
	input_unmute();
	put(SMD_RECORD, bytes, length);
	smd_record_amend(&dir, NULL, SMD_OUTCOME_FAILED, "the runner was killed");
	return 0;
}
