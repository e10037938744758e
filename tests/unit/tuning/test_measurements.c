/* What trials report is read whatever is in the file, and judged by the last, the best or the
 * median. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "orchestrator/tuning/metric_file.h"
#include "orchestrator/tuning/study_end.h"

#define NOW 5000.0

static char name[] = "accuracy";
static struct smd_metric accuracy = {.id = name};

struct reading {
	struct smd_measurements measurements;
	struct smd_metric_remarks remarks;
};

static void read_text(struct reading *reading, const char *text)
{
	assert_int_equal(smd_metric_file_read(text, strlen(text), NOW, &accuracy,
				 &reading->measurements, &reading->remarks),
		0);
}

/* As the package writes it: all reports again each time, numbers as texts. */
static void hypertune(void **state)
{
	struct reading reading = {.remarks = {.has_no_number = 0}};
	const struct smd_measurement *final;

	(void)state;
	read_text(&reading,
		"{\"accuracy\": \"0.5\", \"checkpoint_path\": \"\", \"global_step\": \"10\","
		" \"timestamp\": 1000.5, \"trial\": \"1\"}\n");
	read_text(&reading,
		"{\"accuracy\": \"0.5\", \"checkpoint_path\": \"\", \"global_step\": \"10\","
		" \"timestamp\": 1000.5, \"trial\": \"1\"}\n"
		"{\"accuracy\": \"0.9\", \"global_step\": \"20\", \"timestamp\": 1001.5}\n"
		"{\"accuracy\": \"0.7\", \"global_step\": \"30\", \"timestamp\": 1002.5}");
	assert_int_equal(reading.measurements.count, 3);
	final = smd_measurements_final(&reading.measurements, 0);
	assert_float_equal(final->value, 0.7, 1e-12);
	assert_int_equal(final->step, 30);
	assert_float_equal(final->time, 1002.5, 1e-9);
	final = smd_measurements_final(&reading.measurements, 1);
	assert_float_equal(final->value, 0.9, 1e-12);
	assert_int_equal(final->step, 20);
	smd_measurements_free(&reading.measurements);
}

/* Half a line, other metrics, no numbers, other JSON: nothing of it counts, or does any harm. */
static void rubbish(void **state)
{
	struct reading reading = {.remarks = {.has_no_number = 0}};

	(void)state;
	read_text(&reading, "{\"accuracy\": \"0.5\", \"glob");
	read_text(&reading, "");
	read_text(&reading, "\n\n[1, 2]\nnull\n\"accuracy\"\n{\"trial\": \"1\", \"loss\": 1}\n");
	assert_int_equal(reading.measurements.count, 0);
	assert_string_equal(reading.remarks.other, "loss");
	assert_false(reading.remarks.has_no_number);
	read_text(&reading,
		"{\"accuracy\": \"nan\"}\n{\"accuracy\": \"-inf\"}\n{\"accuracy\": null}\n"
		"{\"accuracy\": \"0.5x\"}\n{\"accuracy\": \"\"}\n{\"accuracy\": {}}\n"
		"{\"accuracy\": 1e999}\n");
	assert_int_equal(reading.measurements.count, 0);
	assert_true(reading.remarks.has_no_number);
	read_text(&reading, "{\"accuracy\": 1, \"global_step\": -3, \"timestamp\": \"soon\"}\n");
	read_text(&reading, "{\"accuracy\": 1, \"global_step\": -3, \"timestamp\": \"soon\"}\n");
	assert_int_equal(reading.measurements.count, 1);
	assert_int_equal(reading.measurements.list[0].step, 0);
	assert_float_equal(reading.measurements.list[0].time, NOW, 1e-9);
	smd_measurements_free(&reading.measurements);
}

/* A program that reports for days takes bounded memory, and its best value is kept. */
static void many(void **state)
{
	struct reading reading = {.remarks = {.has_no_number = 0}};

	(void)state;
	for (int i = 0; i < 100000; i++) {
		char line[128];

		snprintf(line, sizeof(line),
			"{\"accuracy\": %d, \"global_step\": %d, \"timestamp\": %d}",
			i == 777 ? 5 : i % 3, i, i);
		read_text(&reading, line);
	}
	assert_in_range(reading.measurements.count, 1000, SMD_MEASUREMENTS_MAX);
	assert_int_equal(smd_measurements_final(&reading.measurements, 0)->step, 99999);
	assert_int_equal(smd_measurements_final(&reading.measurements, 1)->step, 777);
	smd_measurements_free(&reading.measurements);
}

/* A trial with these values at steps 1, 2, ..., one per second. */
static struct smd_measurements trial_of(const double *values, size_t count)
{
	struct smd_measurements trial = {.begin = 100};

	for (size_t i = 0; i < count; i++) {
		const struct smd_measurement measurement = {
			.step = (int64_t)i + 1, .time = 100 + (double)i, .value = values[i]};

		assert_int_equal(smd_measurements_add(&trial, &accuracy, measurement, NOW), 0);
	}
	return trial;
}

/* Five trials with averages of 0.1 to 0.5 until step 2, so the median is 0.3. */
static void median(void **state)
{
	struct smd_study study = {.metrics = &accuracy, .nmetrics = 1};
	struct smd_measurements others[5];
	const struct smd_measurements *list[5];
	struct smd_measurements trial;

	(void)state;
	for (int i = 0; i < 5; i++) {
		double level = 0.1 * (i + 1);

		others[i] = trial_of((double[]){level - 0.05, level + 0.05, 9}, 3);
		list[i] = &others[i];
	}
	trial = trial_of((double[]){0.1, 0.29}, 2);
	assert_true(smd_measurements_are_below_median(&study, &trial, list, 5));
	assert_false(smd_measurements_are_below_median(&study, &trial, list, 4));
	study.counts_elapsed = 1;
	assert_true(smd_measurements_are_below_median(&study, &trial, list, 5));
	smd_measurements_free(&trial);
	trial = trial_of((double[]){0.31, 0.1}, 2); /* its best value counts */
	assert_false(smd_measurements_are_below_median(&study, &trial, list, 5));
	smd_measurements_free(&trial);
	trial = trial_of(NULL, 0);
	assert_false(smd_measurements_are_below_median(&study, &trial, list, 5));
	accuracy.is_minimised = 1;
	smd_measurements_free(&trial);
	trial = trial_of((double[]){0.1, 0.29}, 2);
	assert_false(smd_measurements_are_below_median(&study, &trial, list, 5));
	accuracy.is_minimised = 0;
	smd_measurements_free(&trial);
	for (int i = 0; i < 5; i++) {
		smd_measurements_free(&others[i]);
	}
}

static void ends(void **state)
{
	struct smd_study study = {.nmetrics = 1};
	struct smd_job job = {.study = &study, .max_trial_count = 10, .parallel_trial_count = 2};
	struct smd_study_progress progress = {.started = 9};

	(void)state;
	assert_null(smd_study_is_over(&job, &progress));
	progress.started = 10;
	assert_non_null(smd_study_is_over(&job, &progress));
	progress = (struct smd_study_progress){.started = 4, .succeeded = 3, .since_best = 2};
	study.end.max_trials = 4;
	assert_non_null(smd_study_is_over(&job, &progress));
	study.end = (struct smd_study_end){.max_trials_no_progress = 2};
	assert_non_null(smd_study_is_over(&job, &progress));
	study.end.min_trials = 4;
	assert_null(smd_study_is_over(&job, &progress));
	study.end = (struct smd_study_end){.max_no_progress_s = 60};
	progress.seconds_since_best = 61;
	assert_non_null(smd_study_is_over(&job, &progress));
	study.end.min_runtime_s = 100;
	assert_null(smd_study_is_over(&job, &progress));
	study.end = (struct smd_study_end){.max_runtime_s = 60};
	progress.seconds = 60;
	assert_non_null(smd_study_is_over(&job, &progress));
}

static void fails(void **state)
{
	struct smd_study study = {.nmetrics = 1};
	struct smd_job job = {.study = &study, .max_trial_count = 10, .parallel_trial_count = 2};
	struct smd_study_progress progress = {.infeasible = 2};

	(void)state;
	assert_null(smd_study_has_failed(&job, &progress));
	progress.infeasible = 3;
	assert_non_null(smd_study_has_failed(&job, &progress));
	progress.succeeded = 1;
	assert_null(smd_study_has_failed(&job, &progress));
	job.max_failed_trial_count = 3;
	assert_non_null(smd_study_has_failed(&job, &progress));
	job.max_failed_trial_count = 4;
	assert_null(smd_study_has_failed(&job, &progress));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hypertune),
		cmocka_unit_test(rubbish),
		cmocka_unit_test(many),
		cmocka_unit_test(median),
		cmocka_unit_test(ends),
		cmocka_unit_test(fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
