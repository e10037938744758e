/* Writes orders of jobs as SQL. */
#include "orchestrator/store/order.h"

#include <sqlite3.h>

/* What has no value sorts as an empty one does; columns that always have one are left to their
 * index. */
static const char *const columns[] = {
	[SMD_STORE_BY_CREATE_TIME] = "create_time",
	[SMD_STORE_BY_START_TIME] = "coalesce(start_time, '')",
	[SMD_STORE_BY_END_TIME] = "coalesce(end_time, '')",
	[SMD_STORE_BY_UPDATE_TIME] = "update_time",
	[SMD_STORE_BY_DISPLAY_NAME] = "display_name",
	[SMD_STORE_BY_STATE] = "state",
};

const char *smd_store_key_of(const struct smd_stored_job *job, enum smd_store_key key)
{
	const char *const values[] = {
#define X(constant, name, member) [SMD_STORE_BY_##constant] = job->member,
		SMD_STORE_KEYS(X)
#undef X
	};

	return values[key] ? values[key] : "";
}

/* The first that differs decides. The bound of the first key is there for an index. */
static void write_position(sqlite3_str *text, const struct smd_store_order *order,
	const struct smd_store_position *after)
{
	for (size_t i = 0; i < order->count; i++) {
		const char *column = columns[order->keys[i].key];
		const char *sign = order->keys[i].is_descending ? "<" : ">";

		if (i == 0) {
			sqlite3_str_appendf(
				text, " AND %s %s= %Q", column, sign, after->values[i]);
		}
		sqlite3_str_appendf(text, " AND (%s %s %Q OR %s = %Q", column, sign,
			after->values[i], column, after->values[i]);
	}
	sqlite3_str_appendf(text, " AND id > %lld", (long long)after->id);
	for (size_t i = 0; i < order->count; i++) {
		sqlite3_str_appendall(text, ")");
	}
}

char *smd_store_order_write(
	const struct smd_store_order *order, const struct smd_store_position *after)
{
	sqlite3_str *text = sqlite3_str_new(NULL);

	if (after) {
		write_position(text, order, after);
	}
	sqlite3_str_appendall(text, " ORDER BY ");
	for (size_t i = 0; i < order->count; i++) {
		sqlite3_str_appendf(text, "%s%s, ", columns[order->keys[i].key],
			order->keys[i].is_descending ? " DESC" : "");
	}
	sqlite3_str_appendall(text, "id");
	return sqlite3_str_finish(text);
}
