/*
 * The page that people look at: its parts, which the program has in it (service/page/).
 *
 * They have no secret and are the same for everybody; what they show comes from the API.
 */
#ifndef SMD_SERVICE_PAGE_H
#define SMD_SERVICE_PAGE_H

#include <stddef.h>

/* What a browser may do with them: load parts from here, ask here, and nothing else. Texts never
 * become markup or scripts, not even by a mistake in the page. */
#define SMD_PAGE_POLICY                                                                            \
	"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src "    \
	"'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "                    \
	"require-trusted-types-for 'script'; trusted-types 'none'"

struct smd_page_part {
	const char *target; /* of the request, such as "/page.css" */
	const char *type;
	const char *text;
	size_t length;
};

/* The part that a request's target means, its query left aside; NULL: none. */
const struct smd_page_part *smd_page_find(const char *target);

#endif
