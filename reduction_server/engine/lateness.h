/*
 * Lateness: who has not joined a communicator that forms, and who is late for an operation. The
 * others are told, by rank and replica name.
 */
#ifndef SMD_ENGINE_LATENESS_H
#define SMD_ENGINE_LATENESS_H

#include "reduction_server/engine/comm.h"

#define SMD_FORMING_TELL_S 1 /* a communicator that forms names who is missing this often */

/* Names the ranks that the others have been waiting for too long, on the log and to those who wait;
 * ends a communicator that has been forming for too long. */
void smd_server_comm_check_late(struct smd_server_comm *comm, uint64_t now_ns);

#endif
