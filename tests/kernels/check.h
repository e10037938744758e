/* The parts of the checker: each returns the number of kinds of mismatches that it has printed. */
#ifndef TESTS_KERNELS_CHECK_H
#define TESTS_KERNELS_CHECK_H

#include <stdbool.h>

#include "reduction_server/kernels/kernels.h"

typedef smd_kernel *find_kernel(unsigned dtype, unsigned op);

/* The conversions of rounding.h against the definitions. */
unsigned check_conversions(bool brief);

/* The scalar kernels against the definitions. */
unsigned check_reference(bool brief);

/* Other kernels against the scalar ones: values, and how the buffers lie in memory. */
unsigned check_variant(const char *name, find_kernel *find, bool brief);

/* Narrowing and widening of whole buffers, in a variant, against single elements. */
unsigned check_widths(const char *name, enum smd_variant variant);

#endif
