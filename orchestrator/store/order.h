/*
 * An order of jobs as SQL. Inside the room only.
 */
#ifndef SMD_STORE_ORDER_H
#define SMD_STORE_ORDER_H

#include "orchestrator/store/store.h"

/* " AND ... ORDER BY ...": what is behind the position, in the order. To be freed by sqlite3_free().
 * NULL: out of memory. */
char *smd_store_order_write(
	const struct smd_store_order *order, const struct smd_store_position *after);

#endif
