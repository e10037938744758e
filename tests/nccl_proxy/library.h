/*
 * The library under test, in one process: opened as NCCL opens it, and closed again with nothing
 * of it left but its code.
 */
#ifndef TESTS_NCCL_PROXY_LIBRARY_H
#define TESTS_NCCL_PROXY_LIBRARY_H

#include <stdint.h>

/* Opens libnccl-net-summand.so of this build. */
void *library_open(void);
/* The table of a version: NULL where there is none. kind: "ncclNetPlugin". */
const void *library_table(void *library, const char *kind, int version);
/* Closes it. No thread and no descriptor may be left that were not there when it was opened. */
void library_close(void *library);

/* Of this process, now. */
int process_threads(void);
int process_descriptors(void);
/* Its TCP connections that have sent so many bytes. */
int process_busy_connections(uint64_t bytes);

/* Over RDMA the watch over registered memory stays: 1, else 0. */
int process_memory_watches(void);

#endif
