/* Writes a log, and begins another file when one is full. */
#include "orchestrator/runner/log_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "reduction_server/base/log.h"

static uint64_t size_of(const struct smd_jobdir *dir, const char *name)
{
	size_t size = 0;
	FILE *file = smd_jobdir_read_file(dir, name, &size);

	if (!file) {
		return 0;
	}
	fclose(file);
	return size;
}

int smd_log_file_open(struct smd_log_file *log, const struct smd_jobdir *dir, const char *name,
	int append, uint64_t limit)
{
	*log = (struct smd_log_file){.dir = dir, .limit = limit, .name = strdup(name)};
	if (!log->name || asprintf(&log->older, "%s.1", name) < 0) {
		free(log->name);
		*log = (struct smd_log_file){.file = NULL};
		return -ENOMEM;
	}
	if (append) {
		log->size = size_of(dir, name);
		log->older_size = size_of(dir, log->older);
	} else {
		smd_jobdir_remove(dir, log->older); /* of an earlier job in the same directory */
	}
	log->file = smd_jobdir_open_file(dir, name, append);
	if (!log->file) {
		int ret = -errno;

		smd_log_file_close(log);
		return ret;
	}
	return 0;
}

static void drop(struct smd_log_file *log, uint64_t count)
{
	if (count && log->dropped == 0) { /* once: the log itself says how much it is by then */
		smd_log(SMD_LOG_WARN, "runner",
			"%s/%s: has reached its limit: what is oldest in it is dropped "
			"(--log-limit=%" PRIu64 ")",
			log->dir->path, log->name, log->limit);
	}
	log->dropped += count;
}

static void begin_another(struct smd_log_file *log)
{
	log->has_failed |= ferror(log->file) | fclose(log->file);
	if (smd_jobdir_rename(log->dir, log->name, log->older) == 0) {
		drop(log, log->older_size);
		log->older_size = log->size;
	} else { /* a replica has removed it, or put something in the other's place */
		drop(log, log->size);
	}
	log->size = 0;
	log->file = smd_jobdir_open_file(log->dir, log->name, 0);
	log->has_failed |= !log->file;
}

int smd_log_file_make_room(
	struct smd_log_file *log, size_t length, char remark[SMD_LOG_REMARK_SIZE])
{
	size_t reserved = length + SMD_LOG_REMARK_SIZE;
	char dropped[96] = "";

	if (!log->file || log->limit == 0 || log->size == 0 ||
		log->size + reserved <= log->limit / 2) {
		return 0;
	}
	begin_another(log);
	if (log->dropped) {
		snprintf(dropped, sizeof(dropped), "; %" PRIu64 " bytes before them are dropped",
			log->dropped);
	}
	snprintf(remark, SMD_LOG_REMARK_SIZE,
		"the %" PRIu64 " bytes before this line are in %.64s%s (--log-limit=%" PRIu64 ")",
		log->older_size, log->older, dropped, log->limit);
	return 1;
}

void smd_log_file_write(struct smd_log_file *log, const char *text, size_t length)
{
	if (log->file) {
		fwrite(text, 1, length, log->file);
		log->size += length;
	}
}

void smd_log_file_flush(struct smd_log_file *log)
{
	if (log->file) {
		fflush(log->file);
	}
}

int smd_log_file_close(struct smd_log_file *log)
{
	int has_failed = log->has_failed;

	if (log->file) {
		has_failed |= ferror(log->file) | fclose(log->file);
	}
	free(log->name);
	free(log->older);
	*log = (struct smd_log_file){.file = NULL};
	return has_failed ? -EIO : 0;
}
