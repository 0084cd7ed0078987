// SPDX-License-Identifier: Apache-2.0
/* The parsers of /proc files over any bytes, and the rules that their users rely on. */
#include "fuzz.h"
#include "proc/call.h"
#include "proc/container.h"
#include "proc/file.h"
#include "proc/info.h"
#include "proc/maps.h"
#include "proc/mounts.h"
#include "proc/pid.h"
#include "proc/program.h"
#include "proc/tracers.h"

static void check_maps(const uint8_t *data, size_t size)
{
	char *text = input_text(data, size);
	struct maps m;

	demand(!maps__parse(text, size, &m));
	for (size_t i = 0; i < m.cnt; i++) {
		const struct mapping *item = &m.items[i];

		demand(item->start < item->end);
		demand(!i || item[-1].end <= item->start);
		demand(item->path >= text && item->path + strlen(item->path) <= text + size);
		demand(!strchr(item->path, '\n'));
		demand(maps__find(&m, item->start) == item);
		demand(maps__find(&m, item->end - 1) == item);
		demand(mapping_same_file(item, item) == (item->ino != 0));
	}
	maps__done(&m);
}

static void check_status(const char *text)
{
	struct proc_info info = { .pid = 1, .own_pid = 1 };
	struct tracer tracer = { .pid = 1 };
	struct proc_call call;
	long long value;
	uint64_t ticks;

	for (int i = -1; i < 4; i++)
		proc_file__field(text, "NSpid", i, &value);
	proc_info__parse(text, &info);
	demand(info.depth <= strlen(text));
	proc_stat_number(text, 22, &ticks);
	tracer__count(&tracer, text);
	demand(tracer.uprobes + tracer.links <= 1 && !tracer.events);
	if (!proc_call__parse(text, &call) && !call.waits)
		demand(!strncmp(text, "running", 7));
}

static void check_name(const struct cgroup_line *line, const struct container_name *c)
{
	demand(c->engine && c->engine[0] && c->end <= line->path_len && c->shown <= c->len);
	demand(c->id >= line->path && c->id + c->len <= line->path + c->end);
	demand(!memchr(c->id, '/', c->len) && !memchr(c->id, '\n', c->len));
	demand(c->end == line->path_len || line->path[c->end] == '/');
}

/* What tells of a container is what one of its lines tells. */
static void check_cgroup(const char *text)
{
	const char *rest = text, *before = text, *end = text + strlen(text);
	struct container_name all, one;
	struct cgroup_line line;
	bool found = false;

	while (cgroup_line__next(&rest, &line)) {
		demand(rest > before && rest <= end && line.hierarchy <= INT32_MAX);
		demand(line.path[0] == '/' && line.path + line.path_len <= rest);
		demand(line.controllers >= before &&
		       line.controllers + line.controllers_len < line.path);
		before = rest;
		if (!container_in(line.path, line.path_len, &one))
			continue;
		check_name(&line, &one);
		found = true;
	}
	demand(container_of(text, &all) == found);
}

static void check_mounts(const uint8_t *data, size_t size)
{
	char *text = input_text(data, size), *rest = text, *end = text + size;
	struct mount m;

	while (mount__next(&rest, &m)) {
		demand(m.root[0] == '/' && m.at[0] == '/');
		demand(m.root < m.at && m.at < m.type && m.type < m.options && m.options <= end);
	}
	free(text);
}

/* The first line is the executable, the rest the arguments. */
static void check_program(const uint8_t *data, size_t size)
{
	const uint8_t *line = memchr(data, '\n', size);
	size_t exe_len = line ? (size_t)(line - data) : 0, len = line ? size - exe_len - 1 : size;
	char *exe = input_text(data, exe_len);
	char *cmdline = input_text(data + size - len, len);

	for (size_t more = 0; more < 2; more++) {
		struct program p = program_of(cmdline, len + more, exe);

		demand(p.kind == PROGRAM_NONE || p.kind == PROGRAM_CODE ||
		       (p.name >= cmdline && p.name + p.len <= cmdline + len));
	}
	free(cmdline);
	free(exe);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = input_text(data, size);

	check_maps(data, size);
	check_status(text);
	check_cgroup(text);
	check_mounts(data, size);
	check_program(data, size);
	free(text);
	return 0;
}
