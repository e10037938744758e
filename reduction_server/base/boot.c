/* Reads the kernel's word for its boot. */
#include "reduction_server/base/boot.h"

#include <errno.h>
#include <stdio.h>

int smd_boot_id(char out[SMD_BOOT_ID_SIZE])
{
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
	size_t length;

	out[0] = '\0';
	if (!file) {
		return -errno;
	}
	length = fread(out, 1, SMD_BOOT_ID_SIZE - 1, file);
	fclose(file);
	out[length < SMD_BOOT_ID_SIZE - 1 ? 0 : length] = '\0';
	return out[0] ? 0 : -EIO;
}
