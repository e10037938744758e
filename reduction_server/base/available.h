/* How much memory this machine, or the container, has left. */
#ifndef SMD_BASE_AVAILABLE_H
#define SMD_BASE_AVAILABLE_H

#include <stdbool.h>
#include <stdint.h>

/* What the machine and, in a container, the control group at the root of its view leave, in bytes.
 */
uint64_t smd_memory_available(void);

/* Whether the kernel hands out more memory than there is, as it does unless told otherwise. Else
 * (vm.overcommit_memory is 2) it may refuse a page of a file in memory to who touches it first, and
 * end that process. `path` is SMD_OVERCOMMIT_FILE but in tests. */
#define SMD_OVERCOMMIT_FILE "/proc/sys/vm/overcommit_memory"
bool smd_memory_overcommits(const char *path);

#endif
