/* Replaces what a terminal or a record cannot take. */
#include "reduction_server/base/printable.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

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
		return (text[0] >= 0x20 && text[0] != 0x7f) || text[0] == '\t';
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

/* Whether a character of several bytes says how others are shown. */
static int steers(const unsigned char *text, size_t length)
{
	unsigned code;

	if (length == 2) {
		code = (text[0] & 0x1fU) << 6 | (text[1] & 0x3fU);
		return code == 0x061c; /* the Arabic letter mark */
	}
	if (length != 3) {
		return 0;
	}
	code = (text[0] & 0x0fU) << 12 | (text[1] & 0x3fU) << 6 | (text[2] & 0x3fU);
	return code == 0x200e || code == 0x200f || (code >= 0x2028 && code <= 0x202e) ||
	       (code >= 0x2066 && code <= 0x2069);
}

static void print(FILE *file, void (*make_printable)(char *), const char *format, va_list args)
{
	size_t length;
	char *text;

	if (vasprintf(&text, format, args) < 0) {
		return;
	}
	length = strlen(text);
	if (length > 0 && text[length - 1] == '\n') {
		text[length - 1] = '\0';
	}
	make_printable(text);
	fprintf(file, "%s\n", text);
	free(text);
}

void smd_print_line(FILE *file, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	print(file, smd_printable, format, args);
	va_end(args);
}

void smd_print_lines(FILE *file, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	print(file, smd_printable_lines, format, args);
	va_end(args);
}

/* What must not be shown at `text`, as its length; 0: nothing. *next is how far the next one is. */
static size_t unprintable(const char *text, size_t *next)
{
	size_t length = character((const unsigned char *)text);

	*next = length ? length : 1;
	if (length == 0) {
		return 1;
	}
	return length > 1 && steers((const unsigned char *)text, length) ? length : 0;
}

static void replace(char *text, int keeps_lines)
{
	size_t next;

	for (; *text; text += next) {
		size_t length = unprintable(text, &next);

		if (length && !(keeps_lines && *text == '\n')) {
			memset(text, '?', length);
		}
	}
}

void smd_printable(char *text)
{
	replace(text, 0);
}

void smd_printable_lines(char *text)
{
	replace(text, 1);
}

const char *smd_unprintable(const char *text, size_t *length)
{
	size_t next;

	for (; *text; text += next) {
		*length = unprintable(text, &next);
		if (*length && *text != '\n') {
			return text;
		}
	}
	return NULL;
}
