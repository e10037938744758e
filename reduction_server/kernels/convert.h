/*
 * Single elements of every type from and to a double, by the conversions of the kernels: for inputs
 * and for checks of results.
 */
#ifndef SMD_KERNELS_CONVERT_H
#define SMD_KERNELS_CONVERT_H

#include "summand_types.h"

/* Rounds once; an integer type must hold the value, and its fraction is cut. */
void smd_element_encode(void *to, enum smd_dtype dtype, double value);

double smd_element_decode(const void *from, enum smd_dtype dtype);

#endif
