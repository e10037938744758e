/*
 * A reduction server's figures for whoever started it, by lines on its notify pipe each second
 * (specs/guide/reporting.md): so a job's runner has them from any host, and no port is needed.
 */
#ifndef SMD_SERVER_REPORTS_H
#define SMD_SERVER_REPORTS_H

#include <event2/event.h>
#include <stdio.h>

struct smd_server;
struct smd_server_reports;

/* Reports until it is closed, from the loop's thread; it never waits for who reads. The server and
 * the file must live so long. 0 or -ENOMEM. */
int smd_server_reports_open(struct event_base *base, const struct smd_server *server, FILE *notify,
	struct smd_server_reports **out);
void smd_server_reports_close(struct smd_server_reports *reports);

#endif
