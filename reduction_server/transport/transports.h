/*
 * The table of transports, and what is in it. Only the table and the transports themselves include
 * this: everybody else takes transports by name or by what they can do (transport.h).
 */
#ifndef SMD_TRANSPORT_TRANSPORTS_H
#define SMD_TRANSPORT_TRANSPORTS_H

#include "reduction_server/transport/transport.h"

/* Ends with NULL. */
extern const struct smd_transport_ops *const smd_transports[];

extern const struct smd_transport_ops smd_transport_tcp;
/* Without RDMA in the build, it says so. */
extern const struct smd_transport_ops smd_transport_rdma;
extern const struct smd_transport_ops smd_transport_shm;
/* Only in tests, and in builds with SUMMAND_FAULT: */
extern const struct smd_transport_ops smd_transport_loopback;
extern const struct smd_transport_ops smd_transport_fault;
extern const struct smd_transport_ops smd_transport_carried;

#endif
