/* Makes what libmicrohttpd sends of an answer: a part of the page, a file, or a document. */
#include <stdlib.h>
#include <string.h>

#include "orchestrator/service/page.h"
#include "orchestrator/service/visit.h"

static struct MHD_Response *show_part(const struct smd_page_part *part)
{
	struct MHD_Response *response = MHD_create_response_from_buffer(
		part->length, (void *)part->text, MHD_RESPMEM_PERSISTENT);

	if (response) {
		MHD_add_response_header(response, "Content-Type", part->type);
		MHD_add_response_header(response, "Content-Security-Policy", SMD_PAGE_POLICY);
		MHD_add_response_header(response, "Cross-Origin-Opener-Policy", "same-origin");
		/* It is asked for again each time: another program may have another page. */
		MHD_add_response_header(response, "Cache-Control", "no-cache");
	}
	return response;
}

static struct MHD_Response *write_document(const json_t *body)
{
	char *text = body ? json_dumps(body, JSON_INDENT(2)) : NULL;
	struct MHD_Response *response = text ? MHD_create_response_from_buffer(strlen(text), text,
						       MHD_RESPMEM_MUST_FREE)
					     : NULL;

	if (!response) {
		free(text);
		return NULL;
	}
	MHD_add_response_header(response, "Content-Type", "application/json; charset=UTF-8");
	MHD_add_response_header(response, "Cache-Control", "no-store");
	MHD_add_response_header(
		response, "Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'");
	return response;
}

/* Takes over the descriptor. A browser shows nothing of it: it might be a page. */
static struct MHD_Response *send_file(struct smd_answer *answer)
{
	struct MHD_Response *response = MHD_create_response_from_fd64(answer->size, answer->fd);

	if (response) {
		answer->has_file = 0;
		MHD_add_response_header(response, "Content-Type", "application/octet-stream");
		MHD_add_response_header(response, "Content-Disposition", "attachment");
		MHD_add_response_header(response, "Cache-Control", "no-store");
		MHD_add_response_header(
			response, "Content-Security-Policy", "default-src 'none'; sandbox");
	}
	return response;
}

struct MHD_Response *smd_http_response(struct smd_answer *answer)
{
	struct MHD_Response *response = answer->part       ? show_part(answer->part)
					: answer->has_file ? send_file(answer)
							   : write_document(answer->body);

	if (!response) {
		return NULL;
	}
	MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
	MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
	MHD_add_response_header(response, "Cross-Origin-Resource-Policy", "same-origin");
	if (answer->status == MHD_HTTP_UNAUTHORIZED) {
		MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
	}
	return response;
}
