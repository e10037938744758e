/* How much memory this machine, or the container, has left. */
#ifndef SMD_BASE_AVAILABLE_H
#define SMD_BASE_AVAILABLE_H

#include <stdint.h>

/* What the machine and, in a container, the control group at the root of its view leave, in bytes.
 */
uint64_t smd_memory_available(void);

#endif
