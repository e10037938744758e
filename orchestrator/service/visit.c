/* Takes a request: checks who sends it, and keeps what comes of it. */
#include "orchestrator/service/visit.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "orchestrator/service/page.h"
#include "reduction_server/base/clock.h"

#define STATUS_BAD_METHOD  405
#define STATUS_TOO_LARGE   413
#define STATUS_BAD_REQUEST 400

void smd_http_visit_clear(struct smd_http_visit *visit)
{
	smd_answer_clear(&visit->request.answer);
	smd_uri_clear(&visit->request.uri);
	free(visit->body);
	free(visit->target);
	visit->request = (struct smd_http_request){.body = NULL};
	visit->body = NULL;
	visit->target = NULL;
	visit->size = 0;
	visit->is_handled = 0;
	visit->is_ambiguous = 0;
	visit->since_ns = smd_clock_ns();
}

static const char *header(const struct smd_http_visit *visit, const char *name)
{
	return MHD_lookup_connection_value(visit->connection, MHD_HEADER_KIND, name);
}

/* How often headers are there that say where a request goes and where it ends. */
struct framing {
	int hosts;
	int lengths;
	int encodings;
	int tokens;
	int origins;
	int is_malformed; /* some header is read otherwise by others */
};

/* libmicrohttpd takes blanks before a colon as part of a name, and joins a line that begins with one
 * to the name of the line before; others see a length there. */
static int is_name(const char *name)
{
	static const char *const framing[] = {"Content-Length", "Transfer-Encoding", "Host"};

	for (size_t i = 0; i < sizeof(framing) / sizeof(framing[0]); i++) {
		if (strncasecmp(name, framing[i], strlen(framing[i])) == 0 &&
			name[strlen(framing[i])]) {
			return 0;
		}
	}
	return *name && name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
					  "0123456789!#$%&'*+-.^_`|~")] == '\0';
}

/* Some take a carriage return alone as a line's end. */
static int is_value(const char *value)
{
	while (*value && (*value == '\t' || (unsigned char)*value >= ' ') && *value != 0x7f) {
		value++;
	}
	return !*value;
}

static enum MHD_Result count_header(
	void *arg, enum MHD_ValueKind kind, const char *name, const char *value)
{
	struct framing *framing = arg;

	(void)kind;
	value = value ? value : "";
	framing->is_malformed |= !is_name(name) || !is_value(value) ||
				 (strcasecmp(name, "Transfer-Encoding") == 0 &&
					 strcasecmp(value, "chunked") != 0);
	framing->hosts += strcasecmp(name, "Host") == 0;
	framing->lengths += strcasecmp(name, "Content-Length") == 0;
	framing->encodings += strcasecmp(name, "Transfer-Encoding") == 0;
	framing->tokens += strcasecmp(name, "Authorization") == 0;
	framing->origins += strcasecmp(name, "Origin") == 0;
	return MHD_YES;
}

static int has_certificate(const struct smd_http_visit *visit)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(visit->connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
	unsigned status = 1;

	return info && info->tls_session &&
	       gnutls_certificate_verify_peers2(info->tls_session, &status) == 0 && status == 0;
}

static int is_ambiguous(const struct framing *framing, const char *method)
{
	int lengths = framing->lengths + framing->encodings;

	return framing->is_malformed || framing->hosts != 1 || lengths > 1 ||
	       (strcmp(method, "POST") == 0 && lengths != 1) || framing->tokens > 1 ||
	       framing->origins > 1;
}

static int has_body(const struct smd_http_visit *visit)
{
	const char *length = header(visit, "Content-Length");

	return header(visit, "Transfer-Encoding") || (length && strtoull(length, NULL, 10) > 0);
}

/* 0; else it has been answered. */
static int check_access(struct smd_http_visit *visit, const char *method)
{
	struct framing framing = {.hosts = 0};
	struct smd_credentials credentials = {.host = header(visit, "Host"),
		.origin = header(visit, "Origin"),
		.authorization = header(visit, "Authorization"),
		.content_type = header(visit, "Content-Type"),
		.has_body = has_body(visit)};

	MHD_get_connection_values(visit->connection, MHD_HEADER_KIND, count_header, &framing);
	credentials.is_ambiguous = is_ambiguous(&framing, method);
	credentials.is_of_page = strcmp(method, "GET") == 0 && visit->target &&
				 smd_page_find(visit->target) != NULL;
	visit->is_ambiguous = credentials.is_ambiguous;
	if (visit->door->wants_certificate && !has_certificate(visit)) {
		smd_answer_fail(&visit->request.answer, SMD_RPC_UNAUTHENTICATED,
			"the client must have a certificate of the service's authority");
		return -EACCES;
	}
	if (smd_access_check(&visit->door->access, &credentials, &visit->request.answer)) {
		return -EACCES;
	}
	visit->is_known |= !credentials.is_of_page;
	return 0;
}

static int take_method(struct smd_http_request *request, const char *method)
{
	static const char *const names[] = {
		[SMD_HTTP_GET] = "GET", [SMD_HTTP_POST] = "POST", [SMD_HTTP_DELETE] = "DELETE"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(method, names[i]) == 0) {
			request->method = (enum smd_http_method)i;
			return 0;
		}
	}
	smd_answer_refuse(&request->answer, STATUS_BAD_METHOD, SMD_RPC_UNIMPLEMENTED,
		"method must be GET, POST or DELETE");
	return -EINVAL;
}

static void take_client(struct smd_http_visit *visit)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(visit->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
	const struct sockaddr *address = info ? info->client_addr : NULL;
	socklen_t size = address && address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
								     : sizeof(struct sockaddr_in);

	if (!address || getnameinfo(address, size, visit->request.client,
				sizeof(visit->request.client), NULL, 0, NI_NUMERICHOST)) {
		visit->request.client[0] = '\0';
	}
}

void smd_http_visit_begin(struct smd_http_visit *visit, const char *method)
{
	struct smd_answer *answer = &visit->request.answer;
	const char *length = header(visit, "Content-Length");

	visit->is_handled = 1; /* unless all is right */
	if (check_access(visit, method) || take_method(&visit->request, method)) {
		return;
	}
	take_client(visit);
	visit->request.target = visit->target;
	visit->request.host = header(visit, "Host");
	if (!visit->target || smd_uri_parse(visit->target, &visit->request.uri)) {
		smd_answer_refuse(answer, STATUS_BAD_REQUEST, SMD_RPC_INVALID_ARGUMENT,
			"the request's target must be a path in printable UTF-8, without empty "
			"parts");
		return;
	}
	if (length && strtoull(length, NULL, 10) > SMD_HTTP_BODY_MAX) {
		smd_answer_refuse(answer, STATUS_TOO_LARGE, SMD_RPC_INVALID_ARGUMENT,
			"the request must have at most %zu bytes", SMD_HTTP_BODY_MAX);
		return;
	}
	visit->is_handled = 0;
}

/* A short one is read, so that its client, which may be writing still, reads the answer. */
int smd_http_visit_is_endless(const struct smd_http_visit *visit)
{
	const char *length = header(visit, "Content-Length");

	return visit->is_ambiguous || header(visit, "Transfer-Encoding") ||
	       (length && strtoull(length, NULL, 10) > SMD_HTTP_BODY_MAX);
}

void smd_http_visit_take(struct smd_http_visit *visit, const char *bytes, size_t count)
{
	size_t needed = visit->request.length + count + 1;

	if (visit->is_handled) {
		return; /* the answer is known, and the rest is not kept */
	}
	if (needed > SMD_HTTP_BODY_MAX + 1) {
		visit->is_handled = 1;
		smd_answer_refuse(&visit->request.answer, STATUS_TOO_LARGE,
			SMD_RPC_INVALID_ARGUMENT, "the request must have at most %zu bytes",
			SMD_HTTP_BODY_MAX);
		return;
	}
	if (needed > visit->size) {
		size_t size = needed < 2 * visit->size ? 2 * visit->size : needed;
		char *body = realloc(visit->body, size);

		if (!body) {
			visit->is_handled = 1;
			smd_answer_fail(&visit->request.answer, SMD_RPC_INTERNAL, "out of memory");
			return;
		}
		visit->body = body;
		visit->size = size;
	}
	memcpy(visit->body + visit->request.length, bytes, count);
	visit->request.length += count;
	visit->body[visit->request.length] = '\0';
	visit->request.body = visit->body;
}
