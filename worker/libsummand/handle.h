/*
 * What callers have for a request: a number in place of its address. It says which place of a table
 * the request has, and how often that was used, so a number that is used once more than it may be
 * is told from all others, whatever has come to that place. Takes no lock.
 */
#ifndef SMD_LIBSUMMAND_HANDLE_H
#define SMD_LIBSUMMAND_HANDLE_H

#include "worker/summand.h"

struct smd_comm;

/* The number of an operation (operation.h), which is not to be used as an address. NULL: out of
 * memory. */
smd_request *smd_handle_make(struct smd_request *operation);

/* The operation of a number; NULL: it is none, or none any more. */
struct smd_request *smd_handle_find(const smd_request *handle);

/* The same, and the number is none from here on: of several callers one gets the operation. */
struct smd_request *smd_handle_take(const smd_request *handle);

/* Frees the operations of a communicator that nobody has waited for; all have ended. */
void smd_handles_drop(const struct smd_comm *comm);

#endif
