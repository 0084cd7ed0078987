// SPDX-License-Identifier: Apache-2.0
#include "tui/view.h"

#include <string.h>

#include "base/text.h"

const char *const view_help[] = {
	"  1 2 3 4 5    a row per function, line, module, thread, process; Tab: the next",
	"  s t c        most self time, total time, samples first",
	"  m            time on the CPU, waiting, or both",
	"  g            group by process",
	"  /            show only rows with a text in them; Enter keeps it, Esc drops it",
	"  Space z      freeze the table, and go on",
	"  arrows j k   one row down or up; PgUp, PgDn, Home, End",
	"  Ctrl-L       draw everything anew",
	"  ? h          this; any key goes back",
	"  q Ctrl-C     quit; the last table stays on the terminal",
	"",
	"Self is the time in which a function was on top of the stack, total the time in",
	"which it was on it. 100 % is one CPU, or one thread that waits all the time.",
	NULL,
};

const char *const view_sort_names[] = {
	[RANKING_SELF] = "self", [RANKING_TOTAL] = "total", [RANKING_CALLS] = "samples", NULL
};

const char *view_of_name(enum window_of of)
{
	static const char *const names[] = { [WINDOW_CPU] = "on the CPU",
					     [WINDOW_WAITS] = "waiting",
					     [WINDOW_WALL] = "on the CPU and waiting" };

	return names[of];
}

static void rub_out(char *filter)
{
	size_t len = strlen(filter);

	while (len && ((unsigned char)filter[--len] & 0xc0) == 0x80)
		continue;
	filter[len] = '\0';
}

static enum view_change type(struct view *v, uint32_t key)
{
	size_t len = strlen(v->filter);

	if (key == '\n' || key == '\r') {
		v->typing = false;
		return VIEW_DRAW;
	}
	if (key == VIEW_KEY_ESCAPE) {
		v->typing = false;
		v->filter[0] = '\0';
	} else if (key == VIEW_KEY_DELETE || key == '\b') {
		rub_out(v->filter);
	} else if (key >= VIEW_KEY_UP || !text_harmless(key) || len + 5 > sizeof(v->filter)) {
		return VIEW_SAME;
	} else {
		v->filter[len + text_put_code_point(v->filter + len, key)] = '\0';
	}
	v->first = 0;
	return VIEW_RANK;
}

static enum view_change move(struct view *v, int64_t rows)
{
	int64_t first = (int64_t)v->first + rows;

	v->first = first < 0 ? 0 : first > UINT32_MAX ? UINT32_MAX : (uint32_t)first;
	return VIEW_DRAW;
}

static enum view_change look_at(struct view *v, unsigned int digit)
{
	static const enum ranking_by kinds[] = { RANKING_FUNCTION, RANKING_LINE, RANKING_MODULE,
						 RANKING_THREAD, RANKING_PROCESS };

	v->by = kinds[digit % 5];
	v->first = 0;
	return VIEW_RANK;
}

static enum view_change look_at_next(struct view *v)
{
	static const unsigned int digits[] = { [RANKING_FUNCTION] = 0,
					       [RANKING_LINE] = 1,
					       [RANKING_MODULE] = 2,
					       [RANKING_THREAD] = 3,
					       [RANKING_PROCESS] = 4 };

	return look_at(v, digits[v->by] + 1);
}

static enum view_change sort_by(struct view *v, enum ranking_sort sort)
{
	v->sort = sort;
	v->first = 0;
	return VIEW_RANK;
}

static enum view_change scroll(struct view *v, uint32_t key)
{
	switch (key) {
	case VIEW_KEY_UP:
	case 'k':
		return move(v, -1);
	case VIEW_KEY_DOWN:
	case 'j':
		return move(v, 1);
	case VIEW_KEY_PAGE_UP:
		return move(v, -(int64_t)v->page);
	case VIEW_KEY_PAGE_DOWN:
		return move(v, v->page);
	case VIEW_KEY_HOME:
		return move(v, -(int64_t)UINT32_MAX);
	case VIEW_KEY_END:
		return move(v, UINT32_MAX);
	default:
		return VIEW_SAME;
	}
}

static enum view_change command(struct view *v, uint32_t key)
{
	switch (key) {
	case 'q':
		v->quit = true;
		return VIEW_SAME;
	case '?':
	case 'h':
		v->help = true;
		return VIEW_DRAW;
	case '1' ... '5':
		return look_at(v, key - '1');
	case '\t':
		return look_at_next(v);
	case 's':
		return sort_by(v, RANKING_SELF);
	case 't':
		return sort_by(v, RANKING_TOTAL);
	case 'c':
		return sort_by(v, RANKING_CALLS);
	case 'm':
		if (!v->waits)
			return VIEW_SAME;
		v->of = (v->of + 1) % WINDOW_OF_CNT;
		return VIEW_READ;
	case 'g':
		v->grouped = !v->grouped;
		v->first = 0;
		return VIEW_RANK;
	case '/':
		v->typing = true;
		return VIEW_DRAW;
	case VIEW_KEY_ESCAPE:
		v->filter[0] = '\0';
		return VIEW_RANK;
	case ' ':
	case 'z':
		v->frozen = !v->frozen;
		return VIEW_DRAW;
	default:
		return scroll(v, key);
	}
}

enum view_change view__key(struct view *v, uint32_t key)
{
	if (key == VIEW_KEY_RESIZE)
		return VIEW_DRAW;
	if (v->help) {
		v->help = false;
		return VIEW_DRAW;
	}
	return v->typing ? type(v, key) : command(v, key);
}
