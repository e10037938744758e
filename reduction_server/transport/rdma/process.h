/* A process's number among those that use the cards of a host, so that each begins elsewhere. */
#ifndef SMD_TRANSPORT_RDMA_PROCESS_H
#define SMD_TRANSPORT_RDMA_PROCESS_H

#include <stdint.h>

/* Those that are started one after the other have numbers that follow each other. In containers
 * each may be process 1: those of another PID namespace count from elsewhere. */
uint32_t smd_rdma_process_number(void);

#endif
