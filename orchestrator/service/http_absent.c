/* In place of http.c where there is no libmicrohttpd. */
#include <errno.h>

#include "orchestrator/service/http.h"

int smd_http_open(struct event_base *base, const struct smd_http_options *options,
	smd_http_handler *handle, smd_http_turn *turn, void *arg, struct smd_http **out,
	struct smd_error *error)
{
	(void)base;
	(void)options;
	(void)handle;
	(void)turn;
	(void)arg;
	*out = NULL;
	return smd_error_set(error, ENOTSUP, "this summand was built without libmicrohttpd");
}

/* Without one that is open nobody calls these. */
const char *smd_http_address(const struct smd_http *http)
{
	(void)http;
	return "";
}

void smd_http_answer(struct smd_http_request *request)
{
	(void)request;
}

void smd_http_tidy(struct smd_http *http)
{
	(void)http;
}

void smd_http_close(struct smd_http *http)
{
	(void)http;
}

const struct smd_http_figures *smd_http_figures_of(const struct smd_http *http)
{
	(void)http;
	return NULL;
}
