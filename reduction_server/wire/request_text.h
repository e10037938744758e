/* What a part asks for, in words: for ranks that do not ask for the same. */
#ifndef SMD_WIRE_REQUEST_TEXT_H
#define SMD_WIRE_REQUEST_TEXT_H

#include <stdbool.h>

#include "reduction_server/wire/frame.h"

#define SMD_REQUEST_TEXT_MAX 120

/* "reduce to rank 0, TYPE sum of 100 in operation 7" */
void smd_request_text(const struct smd_frame *frame, char text[SMD_REQUEST_TEXT_MAX]);

/* All-reduces that are the same but for the type that elements are sent as. */
bool smd_requests_may_differ_in_wire(const struct smd_frame *a, const struct smd_frame *b);

#endif
