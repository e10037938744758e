/*
 * What a request's Host says. A page of a stranger's can have its own name mean our address (DNS
 * rebinding), and never an address, localhost or a name that we were told is ours.
 */
#ifndef SMD_TRANSPORT_HOST_HEADER_H
#define SMD_TRANSPORT_HOST_HEADER_H

#include <stdbool.h>
#include <stddef.h>

#define SMD_HOST_HEADER_NAME_SIZE 256

/* "[::1]:8080" and "localhost:8080" without the port. 0 or -EINVAL. */
int smd_host_header_name(const char *host, char name[SMD_HOST_HEADER_NAME_SIZE]);

/* Whether that name is an address, localhost or one of `names`. */
bool smd_host_header_is_own(const char *name, const char *const *names, size_t count);

#endif
