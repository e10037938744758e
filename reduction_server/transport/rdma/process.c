/* Numbers processes by their ids and their PID namespaces. */
#include "reduction_server/transport/rdma/process.h"

#include <sys/stat.h>
#include <unistd.h>

#include "reduction_server/base/random.h"

uint32_t smd_rdma_process_number(void)
{
	struct stat namespace = {.st_ino = 0};
	uint64_t state;

	(void)stat("/proc/self/ns/pid", &namespace); /* without /proc by the process's id alone */
	state = namespace.st_ino;
	return (uint32_t)smd_random_next(&state) + (uint32_t)getpid();
}
