/* Writes state.json of a tuning job, with its trials as the Vertex AI API has them. */
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "orchestrator/tuning/study_run.h"
#include "reduction_server/base/clock.h"
#include "reduction_server/base/log.h"

/* google.rpc.Code */
#define CODE_CANCELLED 1
#define CODE_UNKNOWN   2
#define NUMBER_SIZE    32

static void set_text(json_t *object, const char *key, const char *text)
{
	if (text && *text) {
		json_object_set_new(object, key, json_string(text));
	}
}

static json_t *parameters_json(const struct smd_study *study, const double *point)
{
	json_t *list = json_array();

	for (size_t i = 0; i < study->nparameters; i++) {
		if (!isnan(point[i])) {
			json_array_append_new(
				list, json_pack("{s:s, s:o}", "parameterId",
					      study->parameters[i].id, "value",
					      smd_parameter_json(&study->parameters[i], point[i])));
		}
	}
	return list;
}

static json_t *metrics_json(const struct smd_study *study, const struct smd_trial *trial)
{
	json_t *list = json_array();

	for (size_t i = 0; i < study->nmetrics; i++) {
		json_array_append_new(
			list, json_pack("{s:s, s:f}", "metricId", study->metrics[i].id, "value",
				      smd_trial_final(trial, study, i)->value));
	}
	return list;
}

/* Step and time are those of the first metric. */
static json_t *measurement_json(const struct smd_study *study, const struct smd_trial *trial,
	const struct smd_measurement *measurement)
{
	char steps[NUMBER_SIZE];
	char elapsed[NUMBER_SIZE];

	snprintf(steps, sizeof(steps), "%" PRId64, measurement->step);
	snprintf(elapsed, sizeof(elapsed), "%.3fs",
		fmin(smd_measurement_progress(&trial->metrics[0].measurements, measurement, 1),
			1e12));
	return json_pack("{s:s, s:s, s:o}", "elapsedDuration", elapsed, "stepCount", steps,
		"metrics", metrics_json(study, trial));
}

static json_t *trial_json(const struct smd_study *study, const struct smd_trial *trial)
{
	const struct smd_measurement *final = smd_trial_final(trial, study, 0);
	char id[NUMBER_SIZE];
	json_t *json;

	snprintf(id, sizeof(id), "%u", trial->number);
	json = json_pack("{s:s, s:s, s:o}", "id", id, "state", smd_trial_state_name(trial->state),
		"parameters", parameters_json(study, trial->point));
	if (final) {
		json_object_set_new(
			json, "finalMeasurement", measurement_json(study, trial, final));
	}
	set_text(json, "startTime", trial->start_time);
	set_text(json, "endTime", trial->end_time);
	set_text(json, "infeasibleReason", trial->reason);
	return json;
}

static int error_code(const struct smd_study_run *run)
{
	return run->outcome == SMD_OUTCOME_FAILED      ? CODE_UNKNOWN
	       : run->outcome == SMD_OUTCOME_CANCELLED ? CODE_CANCELLED
						       : 0;
}

static const char *error_message(const struct smd_study_run *run)
{
	return run->outcome == SMD_OUTCOME_FAILED      ? run->failure
	       : run->outcome == SMD_OUTCOME_CANCELLED ? "The job was cancelled."
						       : NULL;
}

const char *smd_study_run_state(const struct smd_study_run *run)
{
	static const char *const announced[] = {
#define X(name, announced_, meaning) announced_,
		SMD_STUDY_PHASES(X)
#undef X
	};

	if (run->phase == SMD_STUDY_ENDED) {
		return run->outcome == SMD_OUTCOME_SUCCEEDED ? "JOB_STATE_SUCCEEDED"
		       : run->outcome == SMD_OUTCOME_FAILED  ? "JOB_STATE_FAILED"
							     : "JOB_STATE_CANCELLED";
	}
	if (run->outcome == SMD_OUTCOME_CANCELLED) {
		return "JOB_STATE_CANCELLING";
	}
	return run->start_time[0] ? announced[run->phase] : "JOB_STATE_PENDING";
}

static int has_ended(const struct smd_trial *trial)
{
	return trial->state == SMD_TRIAL_SUCCEEDED || trial->state == SMD_TRIAL_INFEASIBLE;
}

/* By its trials, as records have that of replicas: which end at the rate of those that have ended. */
static json_t *progress_json(const struct smd_study_run *run)
{
	size_t ended = smd_study_run_count(run, has_ended);
	double passed = (double)(smd_clock_ns() - run->begun_ns) * 1e-9;
	json_t *progress = json_pack("{s:f, s:f, s:s}", "done", (double)ended, "total",
		(double)run->job->max_trial_count, "unit", "trials");
	double rate = passed > 0 ? (double)ended / passed : 0;
	char text[SMD_TIMESTAMP_SIZE];
	time_t end;
	struct tm parts;

	if (rate > 0 && run->phase < SMD_STUDY_STOPPING) {
		end = time(NULL) + (time_t)(((double)run->job->max_trial_count - (double)ended) / rate);
		json_object_set_new(progress, "rate", json_real(rate));
		if (gmtime_r(&end, &parts)) {
			strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
			json_object_set_new(progress, "estimatedEndTime", json_string(text));
		}
	}
	return progress;
}

static json_t *record_json(const struct smd_study_run *run)
{
	json_t *trials = json_array();
	char now[SMD_TIMESTAMP_SIZE];
	json_t *record = json_object();

	smd_timestamp(now);
	set_text(record, "name", run->entry ? run->entry->name : NULL);
	set_text(record, "id", run->job->id);
	set_text(record, "displayName", run->job->display_name);
	set_text(record, "state", smd_study_run_state(run));
	set_text(record, "createTime", run->create_time);
	set_text(record, "startTime", run->start_time);
	set_text(record, "endTime", run->end_time);
	set_text(record, "updateTime", now);
	if (run->phase == SMD_STUDY_ENDED && error_code(run)) {
		json_object_set_new(record, "error",
			json_pack("{s:i, s:s}", "code", error_code(run), "message",
				error_message(run)));
	}
	for (size_t i = 0; i < run->count; i++) {
		json_array_append_new(trials, trial_json(run->study, &run->trials[i]));
	}
	json_object_set_new(record, "trials", trials);
	json_object_set_new(record, "progress", progress_json(run));
	json_object_set_new(record, "replicas", json_array()); /* those of trials are in theirs */
	return record;
}

static const char *given(const char *time)
{
	return *time ? time : NULL;
}

void smd_study_run_write(struct smd_study_run *run)
{
	json_t *record = record_json(run);
	int is_over = run->phase == SMD_STUDY_ENDED;
	const struct smd_entry_change change = {.state = smd_study_run_state(run),
		.start_time = given(run->start_time),
		.end_time = given(run->end_time),
		.error_code = is_over ? error_code(run) : 0,
		.error_message = is_over ? error_message(run) : NULL};
	int ret = smd_jobdir_write_json(run->dir, SMD_RECORD, record);

	if (ret && ret != run->record_error) {
		smd_log(SMD_LOG_WARN, "runner", "%s/" SMD_RECORD ": cannot be written: %s",
			run->dir->path, strerror(-ret));
	}
	run->record_error = ret;
	json_decref(record);
	if (run->entry) {
		smd_entry_write(run->entry, &change);
	}
}
