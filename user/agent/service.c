// SPDX-License-Identifier: Apache-2.0
#include "agent/service.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "proc/file.h"
#include "proc/info.h"
#include "proc/program.h"
#include "store/store.h"

#define CGROUP_BYTES 16384
#define VALUE_BYTES  128

/* The value is escaped: it is a target's own choice. What does not fit is left out. */
static void add(struct service *s, const char *name, const char *value, size_t len)
{
	char shown[4 * VALUE_BYTES];
	size_t used = 0, need;

	for (uint32_t i = 0; i < s->label_cnt; i++)
		used += strlen(s->labels[i].value) + 1;
	text_escape(shown, sizeof(shown), value, len < VALUE_BYTES ? len : VALUE_BYTES);
	need = strlen(shown) + 1;
	if (need == 1 || s->label_cnt == SERVICE_LABELS_MAX || need > sizeof(s->text) - used)
		return;
	memcpy(s->text + used, shown, need);
	s->labels[s->label_cnt++] = (struct store_label){ name, s->text + used };
}

void service_copy(struct service *to, const struct service *from)
{
	*to = *from;
	/* the labels' values lie in the text beside them */
	for (uint32_t i = 0; i < to->label_cnt; i++)
		to->labels[i].value = to->text + (from->labels[i].value - from->text);
}

/* --- the control group --- */

struct part {
	const char *at;
	size_t len;
};

static bool ends(const struct part *p, const char *end)
{
	size_t n = strlen(end);

	return p->len > n && !memcmp(p->at + p->len - n, end, n);
}

static bool begins(const struct part *p, const char *begin)
{
	return p->len >= strlen(begin) && !memcmp(p->at, begin, strlen(begin));
}

static bool is_service(const struct part *p)
{
	static const char *const engines[] = { "user@",	 "docker.", "containerd.",
					       "podman", "crio.",   "kubelet." };

	if (!ends(p, ".service"))
		return false;
	for (size_t i = 0; i < sizeof(engines) / sizeof(engines[0]); i++)
		if (begins(p, engines[i]))
			return false;
	return true;
}

/* 64 hex digits somewhere in the name, as every engine has it: docker-<id>.scope, cri-containerd-<id>.scope. */
static const char *container_id(const struct part *p)
{
	size_t run = 0;

	for (size_t i = 0; i < p->len; i++) {
		char c = p->at[i];

		run = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') ? run + 1 : 0;
		if (run == 64)
			return p->at + i + 1 - 64;
	}
	return NULL;
}

struct group {
	struct part unit;
	const char *container;
};

/* The innermost unit and container of all hierarchies. */
static struct group read_group(const char *cgroup)
{
	struct group g = { 0 };

	while (*cgroup) {
		struct part p = { cgroup, strcspn(cgroup, "/\n") };
		const char *id = container_id(&p);

		if (id)
			g.container = id;
		if (is_service(&p))
			g.unit = p;
		cgroup += p.len + (cgroup[p.len] != '\0');
	}
	return g;
}

/* --- the program --- */

static struct part base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	path = slash ? slash + 1 : path;
	return (struct part){ path, strlen(path) };
}

static struct part run_name(const char *cmdline, size_t len, const char *exe)
{
	struct program p = program_of(cmdline, len, exe);
	struct part name = { p.name, p.len };

	if (p.kind != PROGRAM_SCRIPT)
		return name;
	name = base_name(p.name);
	name.len -= ends(&name, ".py") ? 3 : 0;
	return name;
}

static void add_name(struct service *s, const struct part *unit, const struct part *run,
		     const char *comm, const char *exe)
{
	size_t stem = unit->len - (unit->len ? strlen(".service") : 0);
	const char *instance = memchr(unit->at ? unit->at : "", '@', stem);
	struct part file = base_name(exe);

	if (stem)
		add(s, STORE_SERVICE, unit->at, instance ? (size_t)(instance - unit->at) : stem);
	else if (run->len)
		add(s, STORE_SERVICE, run->at, run->len);
	else if (file.len)
		add(s, STORE_SERVICE, file.at, file.len);
	else
		add(s, STORE_SERVICE, comm, strlen(comm));
	if (!s->label_cnt)
		add(s, STORE_SERVICE, "unknown", 7);
}

void service_by(const char *cgroup, const char *cmdline, size_t len, const char *comm,
		const char *exe, const char *python, struct service *out)
{
	struct group g = read_group(cgroup);
	struct part run = run_name(cmdline, len, exe), file = base_name(exe);

	out->label_cnt = 0;
	add_name(out, &g.unit, &run, comm, exe);
	add(out, "unit", g.unit.at ? g.unit.at : "", g.unit.len);
	add(out, "container_id", g.container ? g.container : "", g.container ? 12 : 0);
	add(out, "executable", file.at, file.len);
	add(out, "python", python, strlen(python));
}

void service_of(pid_t pid, const char *comm, const char *exe, const char *python,
		struct service *out)
{
	auto_free char *cgroup = NULL, *cmdline = NULL;
	size_t cgroup_len, len = 0;

	if (proc_file__read(pid, "cgroup", CGROUP_BYTES, &cgroup, &cgroup_len) < 0)
		cgroup_len = 0;
	if (proc_cmdline(pid, &cmdline, &len) < 0)
		len = 0;
	service_by(cgroup ? cgroup : "", cmdline ? cmdline : "", len, comm, exe, python, out);
}
