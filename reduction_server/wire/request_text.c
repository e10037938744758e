/* Puts a part's shape into words. */
#include "reduction_server/wire/request_text.h"

#include <stdio.h>

#include "reduction_server/base/dtype.h"

void smd_request_text(const struct smd_frame *frame, char text[SMD_REQUEST_TEXT_MAX])
{
	char root[32] = "";

	if (frame->collective != SMD_COLLECTIVE_ALLREDUCE) {
		snprintf(root, sizeof(root), " %s rank %u",
			frame->collective == SMD_COLLECTIVE_REDUCE ? "to" : "from", frame->root);
	}
	snprintf(text, SMD_REQUEST_TEXT_MAX, "%s%s, %s %s of %llu in operation %llu",
		smd_collective_name(frame->collective), root, smd_dtype_name(frame->dtype),
		smd_collective_reduces(frame->collective) ? smd_op_name(frame->op) : "elements",
		(unsigned long long)frame->count, (unsigned long long)frame->operation);
}

bool smd_requests_may_differ_in_wire(const struct smd_frame *a, const struct smd_frame *b)
{
	return a->collective == SMD_COLLECTIVE_ALLREDUCE && b->collective == a->collective &&
	       a->dtype != b->dtype && smd_wire_is(a->dtype) && smd_wire_is(b->dtype) &&
	       a->op == b->op && a->operation == b->operation && a->count == b->count;
}
