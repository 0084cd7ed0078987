// SPDX-License-Identifier: Apache-2.0
#include "tui/screen.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#define NCURSES_WIDECHAR 1
#define NCURSES_NOMACROS
#include <ncurses.h>

#include "base/cleanup.h"
#include "base/memfile.h"

#define KEPT_BYTES 16384 /* of stderr, the last of them */

struct screen {
	SCREEN *terminal;
	int err_fd; /* stderr as it was; -1: it is no terminal and goes on */
	int kept_fd; /* what goes there meanwhile */
};

/* Messages would be in the middle of the table. */
static void keep_messages(struct screen *s)
{
	s->err_fd = s->kept_fd = -1;
	if (!isatty(STDERR_FILENO))
		return;
	s->kept_fd = memfile_open("messages");
	s->err_fd = s->kept_fd < 0 ? -1 : fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	if (s->err_fd >= 0)
		dup2(s->kept_fd, STDERR_FILENO);
}

static void show_messages(struct screen *s)
{
	char text[KEPT_BYTES];
	off_t len = s->kept_fd < 0 ? 0 : lseek(s->kept_fd, 0, SEEK_END);
	ssize_t n;

	if (s->err_fd >= 0) {
		dup2(s->err_fd, STDERR_FILENO);
		close(s->err_fd);
	}
	n = len > 0 ? pread(s->kept_fd, text, sizeof(text), len > KEPT_BYTES ? len - KEPT_BYTES : 0)
		    : 0;
	if (n > 0 && write(STDERR_FILENO, text, (size_t)n) < 0)
		perror("stderr"); /* as hopeless, but seen by whoever traces us */
	if (s->kept_fd >= 0)
		close(s->kept_fd);
}

int screen__open(struct screen **out, struct err *e)
{
	struct screen *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->terminal = newterm(NULL, stdout, stdin);
	if (!s->terminal) {
		free(s);
		err_set(e, -PYE_EUSAGE, "nothing is known of a terminal of type %.40s",
			getenv("TERM") ? getenv("TERM") : "(TERM is not set)");
		err_hint(
			e,
			"TERM=vt100 pyebpf top ... works nearly everywhere, pyebpf top ... | cat always");
		return -PYE_EUSAGE;
	}
	keep_messages(s);
	cbreak();
	noecho();
	nonl();
	curs_set(0);
	set_escdelay(50);
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	leaveok(stdscr, TRUE);
	*out = s;
	return 0;
}

void screen__close(struct screen *s)
{
	if (!s)
		return;
	endwin();
	delscreen(s->terminal);
	show_messages(s);
	free(s);
}

static int translate(wint_t key)
{
	switch (key) {
	case KEY_UP:
		return VIEW_KEY_UP;
	case KEY_DOWN:
		return VIEW_KEY_DOWN;
	case KEY_PPAGE:
		return VIEW_KEY_PAGE_UP;
	case KEY_NPAGE:
		return VIEW_KEY_PAGE_DOWN;
	case KEY_HOME:
		return VIEW_KEY_HOME;
	case KEY_END:
		return VIEW_KEY_END;
	case KEY_BACKSPACE:
	case KEY_DC:
		return VIEW_KEY_DELETE;
	case KEY_ENTER:
		return '\n';
	case KEY_RESIZE:
		return VIEW_KEY_RESIZE;
	default:
		return 0;
	}
}

int screen__key(struct screen *s)
{
	struct pollfd fd = { .fd = STDIN_FILENO, .events = POLLIN };
	wint_t key;
	int got;

	(void)s;
	while ((got = get_wch(&key)) == KEY_CODE_YES) {
		int translated = translate(key);

		if (translated)
			return translated;
	}
	if (got != ERR)
		return (int)key;
	return poll(&fd, 1, 0) > 0 && fd.revents & (POLLHUP | POLLERR | POLLNVAL) ? -EIO : 0;
}

void screen__size(const struct screen *s, int *width, int *height)
{
	(void)s;
	getmaxyx(stdscr, *height, *width);
}

static attr_t attribute(enum table_style style)
{
	switch (style) {
	case TABLE_TITLE:
	case TABLE_GROUP:
		return A_BOLD;
	case TABLE_HEADING:
	case TABLE_HINT:
		return A_REVERSE;
	default:
		return A_NORMAL;
	}
}

void screen__draw(struct screen *s, const struct table_line *lines, int cnt, bool anew)
{
	(void)s;
	for (int i = 0; i < cnt; i++) {
		attrset((int)attribute(lines[i].style));
		mvaddstr(i, 0, lines[i].text);
		attrset(A_NORMAL);
		clrtoeol();
	}
	if (anew)
		clearok(stdscr, TRUE);
	refresh();
}
