/* Replaces what a terminal or a record cannot take. */
#include "orchestrator/runner/printable.h"

#include <ctype.h>
#include <stddef.h>

/* The length of the UTF-8 character at `text`; 0: there is none, or it is a control character. */
static size_t character(const unsigned char *text)
{
	/* The range of the second byte depends on the first one, which excludes overlong forms,
	 * surrogates and everything above U+10FFFF. */
	static const struct {
		unsigned char first, last, low, high;
		size_t length;
	} forms[] = {
		{0xc2, 0xc2, 0xa0, 0xbf, 2}, /* less U+0080 to U+009F */
		{0xc3, 0xdf, 0x80, 0xbf, 2},
		{0xe0, 0xe0, 0xa0, 0xbf, 3},
		{0xe1, 0xec, 0x80, 0xbf, 3},
		{0xed, 0xed, 0x80, 0x9f, 3},
		{0xee, 0xef, 0x80, 0xbf, 3},
		{0xf0, 0xf0, 0x90, 0xbf, 4},
		{0xf1, 0xf3, 0x80, 0xbf, 4},
		{0xf4, 0xf4, 0x80, 0x8f, 4},
	};

	if (text[0] < 0x80) {
		return !iscntrl(text[0]) || text[0] == '\t';
	}
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		if (text[0] < forms[i].first || text[0] > forms[i].last) {
			continue;
		}
		if (text[1] < forms[i].low || text[1] > forms[i].high) {
			return 0;
		}
		for (size_t n = 2; n < forms[i].length; n++) {
			if ((text[n] & 0xc0) != 0x80) {
				return 0;
			}
		}
		return forms[i].length;
	}
	return 0;
}

void smd_printable(char *text)
{
	while (*text) {
		size_t length = character((const unsigned char *)text);

		if (length == 0) {
			*text = '?';
			length = 1;
		}
		text += length;
	}
}
