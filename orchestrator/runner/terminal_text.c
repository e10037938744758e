/* Makes lines of programs fit for a terminal. */
#include "orchestrator/runner/terminal_text.h"

#include <stdint.h>
#include <string.h>

#include "reduction_server/base/printable.h"

/* The length of a control sequence (ESC [ ... letter), as colours are; 0: there is none. */
static size_t control_sequence(const char *text, size_t length)
{
	size_t n = 2;

	if (length < 3 || text[0] != '\033' || text[1] != '[') {
		return 0;
	}
	while (n < length && text[n] >= 0x20 && text[n] < 0x40) {
		n++;
	}
	return n < length && text[n] >= 0x40 && text[n] < 0x7f ? n + 1 : 0;
}

size_t smd_terminal_text(char *shown, const char *text, size_t length)
{
	size_t n = 0;

	while (length > 0 && (text[length - 1] == '\n' || text[length - 1] == '\r')) {
		length--;
	}
	for (size_t i = 0; i < length; i++) {
		size_t skip = control_sequence(text + i, length - i);

		if (skip) {
			i += skip - 1;
		} else if (text[i] == '\r') {
			n = 0;
		} else {
			shown[n++] = (char)(text[i] ? text[i] : '?');
		}
	}
	shown[n] = '\0';
	smd_printable(shown);
	return strlen(shown);
}

/* Its first byte is neither ASCII's nor one that goes on. */
static uint32_t code_point(const char *text, size_t *length)
{
	unsigned char first = (unsigned char)*text;
	uint32_t point = first < 0x80 ? first
				      : first & (first < 0xe0          ? 0x1f
							: first < 0xf0 ? 0xf
								       : 7);

	*length = 1;
	while (first >= 0x80 && ((unsigned char)text[*length] & 0xc0) == 0x80) {
		point = point << 6 | ((unsigned char)text[(*length)++] & 0x3f);
	}
	return point;
}

/* East Asian wide and fullwidth characters, and emoji; roughly, and never too few. */
static size_t columns_of(uint32_t point)
{
	static const struct {
		uint32_t first, last;
	} wide[] = {{0x1100, 0x115f}, {0x231a, 0x231b}, {0x23e9, 0x23f3}, {0x25fd, 0x27bf},
		{0x2b1b, 0x2b55}, {0x2e80, 0xa4cf}, {0xa960, 0xa97c}, {0xac00, 0xd7a3},
		{0xf900, 0xfaff}, {0xfe10, 0xfe6f}, {0xff00, 0xff60}, {0xffe0, 0xffe6},
		{0x16fe0, 0x1b2ff}, {0x1f000, 0x1faff}, {0x20000, 0x3fffd}};

	for (size_t i = 0; i < sizeof(wide) / sizeof(wide[0]); i++) {
		if (point >= wide[i].first && point <= wide[i].last) {
			return 2;
		}
	}
	return 1;
}

size_t smd_terminal_text_fit(const char *text, size_t columns)
{
	size_t used = 0;

	while (text[used]) {
		size_t length;
		size_t width = columns_of(code_point(text + used, &length));

		if (width > columns) {
			break;
		}
		columns -= width;
		used += length;
	}
	return used;
}
