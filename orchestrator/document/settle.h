/*
 * Other ways to write the same that an API takes: an enumeration's number for its name, and a
 * single object for a list of one.
 */
#ifndef SMD_DOCUMENT_SETTLE_H
#define SMD_DOCUMENT_SETTLE_H

#include "orchestrator/document/decode.h"

/* Writes them in the one way that tables know, in the object and all below it. 0 or -ENOMEM. */
int smd_message_settle(const struct smd_message *message, struct smd_node *object,
	struct smd_diagnostics *diagnostics);

#endif
