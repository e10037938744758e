/*
 * Memory of what callers name by its address: contexts and communicators. It stays readable after
 * the end of what was in it, and is used again for its own kind, so that an address that has been
 * kept too long can be told from one that is good, without touching memory that is somebody else's.
 *
 * An address is another object's only after SMD_CONTEXTS_KEPT or SMD_COMMS_KEPT others of the kind
 * have ended; one that was never an object's cannot be asked.
 */
#ifndef SMD_LIBSUMMAND_OBJECT_H
#define SMD_LIBSUMMAND_OBJECT_H

#include <stdbool.h>
#include <stddef.h>

#define SMD_CONTEXTS_KEPT 16
#define SMD_COMMS_KEPT    512

enum smd_object_kind { SMD_OBJECT_CONTEXT, SMD_OBJECT_COMM, SMD_OBJECT_KINDS };

/* Zeroed memory; all objects of a kind have the same size. NULL: out of memory. */
void *smd_object_create(enum smd_object_kind kind, size_t bytes);

/* What there is at an address that a caller has given. */
enum smd_object_state { SMD_OBJECT_LIVES, SMD_OBJECT_ENDED, SMD_OBJECT_NULL, SMD_OBJECT_OTHER };
enum smd_object_state smd_object_state(enum smd_object_kind kind, const void *object);

/* The end of the sentence about what does not live: "NULL". */
const char *smd_object_state_text(enum smd_object_state state);

void smd_object_end(enum smd_object_kind kind, void *object);

#endif
