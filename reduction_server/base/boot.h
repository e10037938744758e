/* Which boot of which kernel this is: equal in all containers of a machine, and on no other one. */
#ifndef SMD_BASE_BOOT_H
#define SMD_BASE_BOOT_H

#define SMD_BOOT_ID_SIZE 37 /* a UUID and its end */

/* 0 or -errno, with an empty text. */
int smd_boot_id(char out[SMD_BOOT_ID_SIZE]);

#endif
