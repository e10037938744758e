/* How much memory this process shares with processes of its host, for its figures. */
#ifndef SMD_TRANSPORT_SHARED_BYTES_H
#define SMD_TRANSPORT_SHARED_BYTES_H

#include <stddef.h>

/* Of all lanes, mapped now. All from any thread. */
size_t smd_shared_bytes(void);

/* A lane maps so many more, or fewer. */
void smd_shared_bytes_add(size_t bytes);
void smd_shared_bytes_take(size_t bytes);

#endif
