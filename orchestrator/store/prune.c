/* Finds the jobs that are beyond a limit, and removes them. */
#include "orchestrator/store/prune.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "orchestrator/store/database.h"
#include "orchestrator/store/job_folder.h"
#include "orchestrator/store/runner_lock.h"
#include "reduction_server/base/clock.h"
#include "worker/agent/exit_record.h"

#define BATCH       64   /* rows in a transaction, each of which waits for the disk */
#define STRAY_AGE_S 3600 /* a job that begins has a directory before it has a row */
#define COLUMNS     "id, directory, display_name, end_time, coalesce(bytes, 0)"

struct ended_job {
	int64_t id;
	uint64_t bytes;
	char *directory;
	char *what; /* for people */
};

struct pruning {
	struct smd_store *store;
	const struct smd_prune_limits *limits;
	smd_pruned_fn *take;
	void *arg;
	struct smd_pruned *out;
	struct smd_error *error;
	int runners_fd;
	double begin_s;
	char age_time[SMD_TIMESTAMP_SIZE];  /* who ended before is too old */
	char rest_time[SMD_TIMESTAMP_SIZE]; /* who ended after is let be */
	struct ended_job *jobs;             /* found last */
	size_t count;
};

static int is_late(const struct pruning *pruning)
{
	return pruning->limits->budget_ms &&
	       smd_clock_seconds() > pruning->begin_s + pruning->limits->budget_ms / 1e3;
}

/* As times of rows are written. */
static void write_time_before(char text[SMD_TIMESTAMP_SIZE], uint64_t seconds)
{
	struct timespec then;
	struct tm parts;
	size_t used;

	clock_gettime(CLOCK_REALTIME, &then);
	then.tv_sec = seconds < (uint64_t)then.tv_sec ? then.tv_sec - (time_t)seconds : 0;
	gmtime_r(&then.tv_sec, &parts);
	used = strftime(text, SMD_TIMESTAMP_SIZE, "%Y-%m-%dT%H:%M:%S", &parts);
	snprintf(text + used, SMD_TIMESTAMP_SIZE - used, ".%09ldZ", then.tv_nsec);
}

static void forget_jobs(struct pruning *pruning)
{
	for (size_t i = 0; i < pruning->count; i++) {
		free(pruning->jobs[i].directory);
		free(pruning->jobs[i].what);
	}
	free(pruning->jobs);
	pruning->jobs = NULL;
	pruning->count = 0;
}

static int add_job(struct pruning *pruning, sqlite3_stmt *row)
{
	struct ended_job *jobs =
		reallocarray(pruning->jobs, pruning->count + 1, sizeof(*pruning->jobs));
	struct ended_job *job;

	if (!jobs) {
		return -ENOMEM;
	}
	pruning->jobs = jobs;
	job = &jobs[pruning->count];
	job->id = sqlite3_column_int64(row, 0);
	job->bytes = (uint64_t)sqlite3_column_int64(row, 4);
	job->directory = strdup((const char *)sqlite3_column_text(row, 1));
	if (asprintf(&job->what, "%" PRId64 "  %s  %.19s", job->id,
		    (const char *)sqlite3_column_text(row, 2),
		    (const char *)sqlite3_column_text(row, 3)) < 0) {
		job->what = NULL;
	}
	pruning->count++;
	return job->directory && job->what ? 0 : -ENOMEM;
}

/* The jobs of a statement that is done then. A store that is read is not written meanwhile. */
static int find_jobs(struct pruning *pruning, sqlite3_stmt *rows)
{
	int code = SQLITE_DONE;
	int ret = rows ? 0 : -EIO;

	forget_jobs(pruning);
	while (!ret && (code = sqlite3_step(rows)) == SQLITE_ROW) {
		ret = add_job(pruning, rows);
	}
	sqlite3_finalize(rows);
	if (!ret && code != SQLITE_DONE) {
		ret = smd_database_fail(&pruning->store->database, pruning->error);
	}
	return ret ? smd_error_set(pruning->error, -ret, "%s", strerror(-ret)) : 0;
}

static int begin(struct pruning *pruning)
{
	return smd_database_run(&pruning->store->database, "BEGIN IMMEDIATE", pruning->error);
}

static int commit(struct pruning *pruning, int ret)
{
	ret = ret ? ret : smd_database_run(&pruning->store->database, "COMMIT", pruning->error);
	if (ret) {
		smd_database_run(&pruning->store->database, "ROLLBACK", NULL);
	}
	return ret;
}

static int write_content(
	struct pruning *pruning, int64_t id, const struct smd_job_folder_content *content)
{
	return smd_database_do(&pruning->store->database, pruning->error,
		"UPDATE jobs SET bytes = ?, has_outputs = ? WHERE id = ?", "iii",
		(int64_t)content->bytes, (int64_t)content->has_outputs, id);
}

/* Of a directory that is not ours nothing is removed, and so nothing counted. */
static struct smd_job_folder_content measure(
	const struct pruning *pruning, const struct ended_job *job)
{
	struct smd_job_folder_content content = {.bytes = 0};

	if (smd_job_folder_is_own(pruning->store->state_dir, job->directory)) {
		smd_job_folder_measure(job->directory, &content);
	}
	return content;
}

static int measure_batch(struct pruning *pruning, size_t *at)
{
	struct smd_job_folder_content contents[BATCH];
	size_t first = *at;
	int ret;

	while (*at < pruning->count && *at < first + BATCH && !is_late(pruning)) {
		contents[*at - first] = measure(pruning, &pruning->jobs[*at]);
		++*at;
	}
	ret = begin(pruning);
	for (size_t i = first; !ret && i < *at; i++) {
		ret = write_content(pruning, pruning->jobs[i].id, &contents[i - first]);
	}
	return commit(pruning, ret);
}

/* What a job that has ended takes does not change any more: it is measured once. */
static int measure_new(struct pruning *pruning)
{
	size_t at = 0;
	int ret = find_jobs(pruning,
		smd_database_prepare(&pruning->store->database, pruning->error,
			"SELECT " COLUMNS " FROM jobs WHERE end_time IS NOT NULL AND bytes IS NULL",
			""));

	while (!ret && at < pruning->count && !is_late(pruning)) {
		ret = measure_batch(pruning, &at);
	}
	return ret;
}

/* Whether the row still says so: a later job may have the directory by now. Nobody gets it while
 * it is locked. */
static int still_has(struct pruning *pruning, const struct ended_job *job)
{
	sqlite3_stmt *row = smd_database_prepare(&pruning->store->database, pruning->error,
		"SELECT 1 FROM jobs WHERE id = ? AND directory = ? AND end_time IS NOT NULL", "is",
		job->id, job->directory);
	int has = row && sqlite3_step(row) == SQLITE_ROW;

	sqlite3_finalize(row);
	return has;
}

/* 0: the row can go; -EBUSY: the job is let be. */
static int remove_folder(struct pruning *pruning, const struct ended_job *job)
{
	int fd;
	int ret = 0;

	if (!smd_job_folder_is_own(pruning->store->state_dir, job->directory)) {
		return 0;
	}
	fd = smd_job_folder_lock(job->directory);
	if (fd < 0) {
		return fd == -ENOENT ? 0 : fd;
	}
	if (!still_has(pruning, job)) {
		ret = -EBUSY;
	} else if (!pruning->limits->dry_run) {
		ret = smd_job_folder_remove(job->directory);
	}
	close(fd);
	return ret;
}

/* It has files of replicas, or cannot be removed: it is not looked at again by itself. */
static int spare(struct pruning *pruning, const struct ended_job *job, uint64_t bytes)
{
	const struct smd_job_folder_content content = {.bytes = bytes, .has_outputs = 1};

	return pruning->limits->dry_run ? 0 : write_content(pruning, job->id, &content);
}

/* 1: its row is to go; 0: it stays; -errno. */
static int remove_job(struct pruning *pruning, const struct ended_job *job)
{
	struct smd_job_folder_content content = measure(pruning, job);
	int ret;

	if (smd_runner_lock_is_held(pruning->runners_fd, job->id) != 0) {
		return 0; /* it writes its last words */
	}
	if (content.has_outputs && !pruning->limits->with_outputs) {
		pruning->out->spared++;
		return spare(pruning, job, content.bytes);
	}
	ret = remove_folder(pruning, job);
	if (ret == -EBUSY) {
		return 0;
	}
	pruning->take(pruning->arg, job->what, content.bytes, ret);
	if (ret) {
		pruning->out->failed++;
		return spare(pruning, job, content.bytes);
	}
	pruning->out->count++;
	pruning->out->bytes += content.bytes;
	return 1;
}

/* Directories first, and then the rows of those that are gone. */
static int remove_batch(struct pruning *pruning, size_t *at, size_t end)
{
	int64_t gone[BATCH];
	size_t count = 0;
	int ret = 0;

	while (ret >= 0 && *at < end && count < BATCH && !is_late(pruning)) {
		const struct ended_job *job = &pruning->jobs[(*at)++];

		ret = remove_job(pruning, job);
		gone[count] = job->id;
		count += ret == 1;
	}
	if (ret < 0 || count == 0 || pruning->limits->dry_run) {
		return ret < 0 ? ret : 0;
	}
	ret = begin(pruning);
	for (size_t i = 0; !ret && i < count; i++) {
		ret = smd_database_do(&pruning->store->database, pruning->error,
			"DELETE FROM jobs WHERE id = ? AND end_time IS NOT NULL", "i", gone[i]);
	}
	return commit(pruning, ret);
}

/* The first `end` of those that were found. */
static int remove_jobs(struct pruning *pruning, size_t end)
{
	size_t at = 0;
	int ret = 0;

	while (!ret && at < end && !is_late(pruning)) {
		ret = remove_batch(pruning, &at, end);
	}
	return ret;
}

/* By hand, those with outputs are looked at too: it is told how many stay. */
static int prune_by_age(struct pruning *pruning)
{
	int ret = find_jobs(pruning,
		smd_database_prepare(&pruning->store->database, pruning->error,
			"SELECT " COLUMNS " FROM jobs WHERE end_time IS NOT NULL AND end_time < ?"
			" AND (? OR has_outputs IS NOT 1) ORDER BY end_time",
			"si", pruning->age_time, (int64_t)(pruning->limits->budget_ms == 0)));

	return ret ? ret : remove_jobs(pruning, pruning->count);
}

/* What may go and is not too old already, in bytes and jobs. */
static int sum_up(struct pruning *pruning, uint64_t *bytes, uint64_t *count)
{
	sqlite3_stmt *row = smd_database_prepare(&pruning->store->database, pruning->error,
		"SELECT coalesce(sum(bytes), 0), count(*) FROM jobs WHERE end_time IS NOT NULL"
		" AND end_time >= ? AND (? OR has_outputs IS NOT 1)",
		"si", pruning->limits->age_s == SMD_PRUNE_NO_AGE ? "" : pruning->age_time,
		(int64_t)pruning->limits->with_outputs);
	int ret = row ? 0 : -EIO;

	if (!ret && sqlite3_step(row) == SQLITE_ROW) {
		*bytes = (uint64_t)sqlite3_column_int64(row, 0);
		*count = (uint64_t)sqlite3_column_int64(row, 1);
	} else if (!ret) {
		ret = smd_database_fail(&pruning->store->database, pruning->error);
	}
	sqlite3_finalize(row);
	return ret;
}

static int prune_by_sum(struct pruning *pruning)
{
	uint64_t bytes = 0;
	uint64_t count = 0;
	size_t end = 0;
	int ret = sum_up(pruning, &bytes, &count);

	if (ret || (bytes <= pruning->limits->bytes && count <= pruning->limits->count)) {
		return ret;
	}
	ret = find_jobs(pruning,
		smd_database_prepare(&pruning->store->database, pruning->error,
			"SELECT " COLUMNS " FROM jobs WHERE end_time IS NOT NULL AND end_time >= ?"
			" AND end_time < ? AND (? OR has_outputs IS NOT 1) ORDER BY end_time",
			"ssi", pruning->limits->age_s == SMD_PRUNE_NO_AGE ? "" : pruning->age_time,
			pruning->rest_time, (int64_t)pruning->limits->with_outputs));
	while (!ret && end < pruning->count &&
		(bytes > pruning->limits->bytes || count > pruning->limits->count)) {
		bytes -= pruning->jobs[end].bytes;
		count--;
		end++;
	}
	return ret ? ret : remove_jobs(pruning, end);
}

static int is_of_job(struct pruning *pruning, const char *directory)
{
	sqlite3_stmt *row = smd_database_prepare(&pruning->store->database, pruning->error,
		"SELECT 1 FROM jobs WHERE directory = ?", "s", directory);
	int is_of_one = !row || sqlite3_step(row) != SQLITE_DONE;

	sqlite3_finalize(row);
	return is_of_one;
}

static int is_old(const struct pruning *pruning, const char *directory)
{
	uint64_t age_s =
		pruning->limits->age_s > STRAY_AGE_S ? pruning->limits->age_s : STRAY_AGE_S;
	struct stat status;

	return lstat(directory, &status) == 0 && S_ISDIR(status.st_mode) &&
	       (uint64_t)status.st_mtime + age_s < (uint64_t)time(NULL);
}

static void remove_stray(struct pruning *pruning, const char *directory)
{
	struct smd_job_folder_content content;
	int fd;
	int ret;

	if (!is_old(pruning, directory) || is_of_job(pruning, directory)) {
		return;
	}
	fd = smd_job_folder_lock(directory);
	if (fd < 0 || smd_job_folder_measure(directory, &content)) {
		return;
	}
	if (content.has_outputs && !pruning->limits->with_outputs) {
		pruning->out->spared++;
	} else {
		ret = pruning->limits->dry_run ? 0 : smd_job_folder_remove(directory);
		pruning->take(pruning->arg, directory, content.bytes, ret);
		pruning->out->failed += ret != 0;
		pruning->out->bytes += ret ? 0 : content.bytes;
	}
	close(fd);
}

/* Directories that no job has: their job ran while the store could not be written, or never began.
 * Only by hand, as there may be many directories to look at. */
static int prune_strays(struct pruning *pruning)
{
	const struct dirent *entry;
	DIR *folder;
	char *path;

	if (asprintf(&path, "%s/" SMD_JOB_FOLDERS, pruning->store->state_dir) < 0) {
		return smd_error_set(pruning->error, ENOMEM, "%s", strerror(ENOMEM));
	}
	folder = opendir(path);
	while (folder && (entry = readdir(folder))) {
		char *directory;

		if (entry->d_name[0] != '.' &&
			asprintf(&directory, "%s/%s", path, entry->d_name) >= 0) {
			remove_stray(pruning, directory);
			free(directory);
		}
	}
	if (folder) {
		closedir(folder);
	}
	free(path);
	return 0;
}

int smd_store_prune(struct smd_store *store, const struct smd_prune_limits *limits,
	smd_pruned_fn *take, void *arg, struct smd_pruned *out, struct smd_error *error)
{
	struct pruning pruning = {.store = store,
		.limits = limits,
		.take = take,
		.arg = arg,
		.out = out,
		.error = error,
		.runners_fd = smd_runner_lock_open(store->state_dir),
		.begin_s = smd_clock_seconds()};
	int ret;

	*out = (struct smd_pruned){.count = 0};
	if (pruning.runners_fd < 0) {
		return smd_error_set(error, -pruning.runners_fd, "%s/runners: %s", store->state_dir,
			strerror(-pruning.runners_fd));
	}
	write_time_before(pruning.age_time, limits->age_s);
	write_time_before(pruning.rest_time, limits->rest_s);
	ret = measure_new(&pruning);
	if (!ret && limits->age_s != SMD_PRUNE_NO_AGE) {
		ret = prune_by_age(&pruning);
		ret = ret || limits->budget_ms ? ret : prune_strays(&pruning);
	}
	if (!ret && (limits->bytes != SMD_PRUNE_NO_BYTES || limits->count != SMD_PRUNE_NO_COUNT)) {
		ret = prune_by_sum(&pruning);
	}
	forget_jobs(&pruning);
	close(pruning.runners_fd);
	return ret;
}
