/* Asks the terminal for its size, and takes its keys. */
#include "orchestrator/cli/own_terminal.h"

#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define ROWS_DEFAULT    24
#define COLUMNS_DEFAULT 80

void smd_own_terminal_find(struct smd_own_terminal *terminal)
{
	*terminal = (struct smd_own_terminal){
		.is_there = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)};
}

struct smd_terminal smd_own_terminal_shape(const struct smd_own_terminal *terminal)
{
	struct smd_terminal shape = {.rows = 0};
	struct winsize size = {.ws_row = 0};

	if (!terminal->is_there) {
		return shape;
	}
	ioctl(STDIN_FILENO, TIOCGWINSZ, &size);
	shape.type = getenv("TERM");
	shape.type = shape.type ? shape.type : "dumb";
	shape.rows = size.ws_row ? size.ws_row : ROWS_DEFAULT;
	shape.columns = size.ws_col ? size.ws_col : COLUMNS_DEFAULT;
	if (shape.rows > SMD_TERMINAL_SIZE_MAX || shape.columns > SMD_TERMINAL_SIZE_MAX) {
		shape.rows = shape.columns = SMD_TERMINAL_SIZE_MAX;
	}
	return shape;
}

void smd_own_terminal_make_raw(struct smd_own_terminal *terminal)
{
	struct termios raw;

	if (terminal->is_there && !terminal->is_raw &&
		tcgetattr(STDIN_FILENO, &terminal->before) == 0) {
		raw = terminal->before;
		cfmakeraw(&raw);
		terminal->is_raw = tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
	}
}

void smd_own_terminal_restore(struct smd_own_terminal *terminal)
{
	if (terminal->is_raw) {
		tcsetattr(STDIN_FILENO, TCSADRAIN, &terminal->before);
		terminal->is_raw = 0;
	}
}
