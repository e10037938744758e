/*
 * Any bytes at all as the digits example's images: refused with a reason, or images whose pixels
 * and labels are within their bounds.
 */
#include "tests/fuzz/input.h"
#include "worker/examples/digits/dataset.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	struct digits_dataset dataset;
	struct smd_error error = {""};
	int ret = digits_dataset_load(input_file(bytes, length), &dataset, &error);

	check_outcome(ret, &error);
	if (ret == 0) {
		must_hold(dataset.count > 0);
		for (size_t i = 0; i < dataset.count; i++) {
			must_hold(dataset.labels[i] < DIGITS_CLASSES);
			for (int p = 0; p < DIGITS_PIXELS; p++) {
				must_hold(dataset.pixels[i][p] >= 0 && dataset.pixels[i][p] <= 1);
			}
		}
		digits_dataset_free(&dataset);
	}
	return 0;
}
