/*
 * What a job's directory says of it: its runner writes state.json even where it could not write the
 * store. Replicas may have put anything in the files' places.
 */
#ifndef SMD_STORE_LAST_RECORD_H
#define SMD_STORE_LAST_RECORD_H

#include <jansson.h>

/* The record of the job of that name, if it has ended; the caller owns a reference. NULL: there is
 * none. */
json_t *smd_last_record_read(const char *directory, const char *name);

/* The number of reduction servers of a job that has some of its own, and the runner's answer to the
 * last request to change it; NULL: there are none. */
json_t *smd_last_record_servers(const char *directory, const char *name);

/* How far the job is, as its replicas have said; NULL: they have not. */
json_t *smd_last_record_progress(const char *directory, const char *name);

/* The trials in the record of a tuning job, ended or not; NULL: there are none. */
json_t *smd_last_record_trials(const char *directory, const char *name);

/* What the record says of replicas, reduction servers and hosts that are left out, and when; NULL: there is none. The name of
 * a trial, in whose own directory it is, is NULL. */
json_t *smd_last_record_replicas(const char *directory, const char *name);

/* The plan as it was printed, which the caller frees. NULL: there is none. */
char *smd_last_record_plan(const char *directory);

#endif
