/*
 * How a replica's command ended, and the file that says so (specs/design/runner.md, "The agent").
 */
#ifndef SMD_AGENT_EXIT_RECORD_H
#define SMD_AGENT_EXIT_RECORD_H

#define SMD_TIMESTAMP_SIZE   32
#define SMD_EXIT_REASON_SIZE 384
#define SMD_EXIT_RECORD_MAX  512 /* bytes of a record */

/* The agent's exit status when the command has no exit code of its own. */
#define SMD_EXIT_NOT_EXECUTABLE 126
#define SMD_EXIT_NOT_FOUND      127
#define SMD_EXIT_SIGNALLED      128 /* and the signal on top */

enum smd_exit_kind { SMD_EXIT_CODE, SMD_EXIT_SIGNAL, SMD_EXIT_ERRNO };

struct smd_exit {
	enum smd_exit_kind kind;
	int value; /* the exit code, the signal, or why the command could not be executed */
	int core_dumped;
	int oom_killed; /* the kernel killed for lack of memory while it ran */
	int is_lost;    /* there is no record, because its keeper was killed too, or its host lost */
	char reason[SMD_EXIT_REASON_SIZE]; /* what the rest does not say; or empty */
	char start_time[SMD_TIMESTAMP_SIZE];
	char end_time[SMD_TIMESTAMP_SIZE];
};

/* Now, in UTC, with nanoseconds: of two, the later one is also the greater text. */
void smd_timestamp(char text[SMD_TIMESTAMP_SIZE]);

/* Writes the record to path.tmp and renames it. 0 or -errno. */
int smd_exit_record_write(const char *path, const struct smd_exit *end);

/* Writes the record to a pipe, in one piece. */
void smd_exit_record_send(int fd, const struct smd_exit *end);

#endif
