// SPDX-License-Identifier: Apache-2.0
/*
 * make_capture OUT < SCRIPT: a capture as a test wants it, a line per thing, fields separated by tabs:
 *
 *	cost    ENTRY_BEFORE ENTRY_AFTER EXIT_BEFORE EXIT_AFTER    (first, if at all)
 *	process ID PID COMM
 *	thread  ID PROCESS TID NAME
 *	func    ID PROCESS LINE QUALNAME FILE
 *	call|resume|throw|open  THREAD TS FUNC
 *	return|yield|unwind     THREAD TS
 *	gap     THREAD TS UNTIL LOST REASON
 *	end     TS LOST                       (events lost in the ring)
 *
 * \xNN in a name is a byte. Times are ns from 1 s on, which is the capture's start.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capfile/writer.h"

enum {
	FIELDS = 7,
	START_NS = 1000000000
};

struct maker {
	struct capw *w;
	struct trace_info info;
	int fd;
	uint64_t generated, end_ns, lost;
	char *fields[FIELDS];
};

static uint64_t number(const struct maker *m, int i)
{
	return m->fields[i] ? strtoull(m->fields[i], NULL, 10) : 0;
}

static uint32_t id(const struct maker *m, int i)
{
	return (uint32_t)number(m, i);
}

static const char *text(struct maker *m, int i)
{
	char *out = m->fields[i], *in = out;

	if (!out)
		return "";
	while (*in) {
		char hex[3] = { 0 };

		if (in[0] == '\\' && in[1] == 'x' && in[2] && in[3]) {
			memcpy(hex, in + 2, 2);
			*out++ = (char)strtoul(hex, NULL, 16);
			in += 4;
		} else {
			*out++ = *in++;
		}
	}
	*out = '\0';
	return m->fields[i];
}

static int kind_of(const char *word)
{
	static const char *const words[TRACE_KIND_CNT] = { "call",   "resume", "throw", "open",
							   "return", "yield",  "unwind" };

	for (int kind = 0; kind < TRACE_KIND_CNT; kind++) {
		if (!strcmp(words[kind], word))
			return kind;
	}
	return -1;
}

static int define(struct maker *m, const char *word)
{
	const char *name;

	if (!strcmp(word, "process"))
		return capw__process(m->w, &(struct trace_process){ .id = id(m, 1),
								    .pid = id(m, 2),
								    .start_ns = START_NS,
								    .comm = text(m, 3),
								    .exe = "/usr/bin/python3",
								    .python = "3.12",
								    .prefix = "" });
	if (!strcmp(word, "thread"))
		return capw__thread(m->w, &(struct trace_thread){ .id = id(m, 1),
								  .process = id(m, 2),
								  .tid = id(m, 3),
								  .start_ns = START_NS,
								  .name = text(m, 4) });
	if (strcmp(word, "func") != 0)
		return -EINVAL;
	name = text(m, 4);
	return capw__func(m->w, &(struct trace_func){ .id = id(m, 1),
						      .process = id(m, 2),
						      .line = id(m, 3),
						      .qualname = name,
						      .name = name,
						      .file = text(m, 5) });
}

static int happen(struct maker *m, int kind)
{
	uint64_t ts_ns = START_NS + number(m, 2);

	m->generated += kind != TRACE_OPEN;
	if (trace_is_leave((unsigned int)kind))
		return capw__leave(m->w, id(m, 1), ts_ns, (enum trace_kind)kind);
	return capw__enter(m->w, id(m, 1), ts_ns, (enum trace_kind)kind, id(m, 3));
}

static int gap(struct maker *m)
{
	const struct trace_gap what = { .thread = id(m, 1),
					.ts_ns = START_NS + number(m, 2),
					.until_ns = START_NS + number(m, 3),
					.lost = number(m, 4),
					.reason = (uint8_t)number(m, 5) };

	return capw__gap(m->w, &what);
}

static int do_line(struct maker *m, char *line)
{
	int cnt = 0, kind;

	memset(m->fields, 0, sizeof(m->fields));
	for (char *at = strtok(line, "\t\n"); at && cnt < FIELDS; at = strtok(NULL, "\t\n"))
		m->fields[cnt++] = at;
	if (!cnt)
		return 0;
	if (!strcmp(m->fields[0], "cost")) {
		m->info.cost = (struct trace_cost){ .entry_before_ns = id(m, 1),
						    .entry_after_ns = id(m, 2),
						    .exit_before_ns = id(m, 3),
						    .exit_after_ns = id(m, 4) };
		return m->w ? -EINVAL : 0;
	}
	if (!m->w && capw__new(&m->w, m->fd, NULL, &m->info))
		return -EIO;
	kind = kind_of(m->fields[0]);
	if (kind >= 0)
		return happen(m, kind);
	if (!strcmp(m->fields[0], "gap"))
		return gap(m);
	if (strcmp(m->fields[0], "end") != 0)
		return define(m, m->fields[0]);
	m->end_ns = START_NS + number(m, 1);
	m->lost = number(m, 2);
	return 0;
}

static int finish(struct maker *m)
{
	struct trace_totals totals = { .end_ns = m->end_ns,
				       .generated = m->generated + m->lost,
				       .written = m->generated,
				       .lost = { [LOSS_RING] = m->lost },
				       .complete = true };
	int err = m->w ? capw__finish(m->w, &totals) : -EINVAL;

	capw__free(m->w);
	return err;
}

int main(int argc, char **argv)
{
	struct maker m = { .info = { .start_ns = START_NS,
				     .start_unix_ns = 1700000000000000000,
				     .engine = "uprobe",
				     .version = "test",
				     .hostname = "host",
				     .kernel = "6.1",
				     .cpu = "cpu",
				     .cpu_cnt = 2,
				     .arguments = "make_capture" } };
	char line[65536];
	int err = 0;

	if (argc != 2)
		return 2;
	m.fd = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	for (unsigned int n = 1; m.fd >= 0 && fgets(line, sizeof(line), stdin); n++) {
		err = do_line(&m, line);
		if (err < 0) {
			fprintf(stderr, "make_capture: line %u: %s\n", n, strerror(-err));
			return 1;
		}
	}
	return m.fd < 0 || finish(&m) < 0 || close(m.fd) ? 1 : 0;
}
