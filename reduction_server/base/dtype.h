/* Element types and reductions by number and name, from the rows of summand_types.h. */
#ifndef SMD_BASE_DTYPE_H
#define SMD_BASE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>

#include "reduction_server/base/error.h"
#include "summand_types.h"

/* Bytes of an element, or 0 for a number that is no type. */
size_t smd_dtype_bytes(unsigned dtype);

/* Whole numbers up to 2^bits are exact in a floating-point type; 0: all numbers are whole. */
unsigned smd_dtype_bits(unsigned dtype);
bool smd_dtype_is_unsigned(unsigned dtype);

const char *smd_dtype_name(unsigned dtype); /* "float32", or "type 99" */
const char *smd_op_name(unsigned op);       /* "sum", or "op 99" */

/* The number of a name; -EINVAL when it is none. */
int smd_dtype_parse(const char *name, unsigned *out);
int smd_op_parse(const char *name, unsigned *out);

/* What float32 may be sent as: itself, or in two bytes. By their names and the short ones, bf16 and
 * fp16; -EINVAL with what it must be, behind which callers say what they got. */
int smd_wire_parse(const char *name, unsigned *out, struct smd_error *error);
bool smd_wire_is(unsigned dtype);
const char *smd_wire_name(unsigned dtype); /* the short one */

/* Fewer elements than this, which are rather counts and losses than gradients, are sent as they
 * are: it would save less than a packet. */
#define SMD_WIRE_LEAST 1024

#define SMD_NAMES_MAX 512

/* All names, for messages: commas between them, `last` (such as " or ") before the last one. */
void smd_dtype_names(char text[SMD_NAMES_MAX], const char *last);
void smd_op_names(char text[SMD_NAMES_MAX], const char *last);

#endif
