/* What the drivers of other libraries share: inputs whose sums are exact, and the measuring loop.
 */
#ifndef SUMMAND_TOOLS_BENCH_DRIVER_H
#define SUMMAND_TOOLS_BENCH_DRIVER_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct driver {
	int rank;
	int size;
	int together; /* operations that begin before the first is awaited; 0: 1 */

	/* Makes ready for all-reduces of data, in place; then does one, of all of it, or as many as
	 * are to be together, of as many equal parts; then lets go of data. */
	void (*begin)(struct driver *driver, float *data, size_t count);
	void (*allreduce)(struct driver *driver);
	void (*end)(struct driver *driver);

	/* The largest of all ranks' values, on every rank. */
	double (*max)(struct driver *driver, double value);
};

/* Measures each of the sizes in the plan, BYTES:WARMUPS:OPERATIONS:LIMIT_US,... with so many
 * operations, or, if that is 0, with as many as fit into the budget. A size whose warm-up takes
 * longer than its limit is not measured, and neither are larger ones when it takes twice as long.
 * Rank 0 prints a line of JSON for each size. */
void driver_run(struct driver *driver, const char *plan, double budget_s);

#ifdef __cplusplus
}
#endif

#endif
