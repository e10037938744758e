/*
 * The servers that ranks are told of: when they begin, and in the file that names those that are
 * added (server_file.h).
 */
#ifndef SMD_TESTS_SIMULATION_SERVER_LIST_H
#define SMD_TESTS_SIMULATION_SERVER_LIST_H

#include <stdbool.h>

/* Of so many servers that there are from the start. `grows`: SUMMAND_SERVERS_FILE is set, too. */
void server_list_begin(unsigned nservers, bool grows);

/* What is SUMMAND_REDUCTION_SERVERS, or an option, elsewhere. */
const char *server_list_first(void);

/* From now on the file names so many at least. */
void server_list_name(unsigned nservers);

#endif
