/* Abandoned jobs: their runner is gone, and has not said how they ended. */
#ifndef SMD_STORE_ABANDONED_H
#define SMD_STORE_ABANDONED_H

#include "orchestrator/store/store.h"

/* Ends them in the store. 0, or -errno with a text. */
int smd_abandoned_end(struct smd_store *store, struct smd_error *error);

#endif
