/*
 * The table of what tuning.h wants: what it wants for, `cause`, is found; this says which weights
 * that makes. All on the owner.
 */
#ifndef SMD_LIBSUMMAND_TUNING_TABLE_H
#define SMD_LIBSUMMAND_TUNING_TABLE_H

#include "worker/libsummand/tuning.h"

/* Fills tuning->weights, of all shards, and tuning->scale. */
void smd_tuning_make_table(struct smd_tuning *tuning);

/* Before that table is used: keeps what servers have that it leaves out, for when they are tried
 * again. */
void smd_tuning_keep_parts(struct smd_tuning *tuning);

/* Those that have a weight have the places: so many, with these weights, which are in `placed` now.
 */
unsigned smd_tuning_list_places(struct smd_tuning *tuning);

/* Of all shards in use. */
double smd_tuning_sum_weights(const struct smd_tuning *tuning);

#endif
