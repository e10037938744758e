/* Any bytes at all as a trial's file of metrics, in two readings as if it had been written on. */
#include <math.h>
#include <string.h>

#include "orchestrator/tuning/metric_file.h"
#include "tests/fuzz/input.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	static char id[] = "accuracy";
	const struct smd_metric metric = {.id = id};
	struct smd_measurements measurements = {.begin = 1};
	struct smd_metric_remarks remarks = {.has_no_number = 0};
	const char *text = (const char *)bytes;
	size_t half = length / 2;

	must_hold(smd_metric_file_read(text, half, 2, &metric, &measurements, &remarks) == 0);
	must_hold(smd_metric_file_read(text, length, 3, &metric, &measurements, &remarks) == 0);
	for (size_t i = 0; i < measurements.count; i++) {
		must_hold(isfinite(measurements.list[i].value));
		must_hold(isfinite(measurements.list[i].time));
		must_hold(measurements.list[i].step >= 0);
		must_hold(measurements.list[i].value <= measurements.best.value);
	}
	must_hold(memchr(remarks.other, '\0', sizeof(remarks.other)) != NULL);
	smd_measurements_free(&measurements);
	return 0;
}
