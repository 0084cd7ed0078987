// SPDX-License-Identifier: Apache-2.0
#include "agent/service.h"

#include <fnmatch.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "proc/container.h"
#include "proc/file.h"
#include "proc/info.h"
#include "proc/program.h"
#include "store/store.h"

#define CGROUP_BYTES 16384
#define VALUE_BYTES  256

static const char *keep(struct service *s, const char *text)
{
	size_t need = strlen(text) + 1;
	char *at = s->text + s->used;

	if (need > sizeof(s->text) - s->used)
		return NULL;
	memcpy(at, text, need);
	s->used += (uint32_t)need;
	return at;
}

/* What does not fit is left out. */
void service_add(struct service *s, const char *name, const char *value, size_t len)
{
	char shown[4 * VALUE_BYTES + 1];
	const char *kept_name, *kept;
	uint32_t used = s->used;

	text_escape(shown, sizeof(shown), value, len < VALUE_BYTES ? len : VALUE_BYTES);
	if (!*shown || s->label_cnt == SERVICE_LABELS_MAX)
		return;
	kept_name = keep(s, name);
	kept = kept_name ? keep(s, shown) : NULL;
	if (kept)
		s->labels[s->label_cnt++] = (struct store_label){ kept_name, kept };
	else
		s->used = used;
}

void service_remove(struct service *s, uint32_t index)
{
	s->label_cnt--;
	memmove(&s->labels[index], &s->labels[index + 1],
		(s->label_cnt - index) * sizeof(s->labels[0]));
}

void service_set(struct service *s, const char *name, const char *value, size_t len)
{
	uint32_t at = 0, before = s->label_cnt;
	struct store_label made;

	while (at < before && strcmp(s->labels[at].name, name) != 0)
		at++;
	if (at < before)
		service_remove(s, at);
	service_add(s, name, value, len);
	if (at >= before || s->label_cnt < before)
		return;
	made = s->labels[before - 1]; /* it stays where the one before was */
	memmove(&s->labels[at + 1], &s->labels[at], (before - 1 - at) * sizeof(made));
	s->labels[at] = made;
}

/* The texts of labels that were removed stay behind. */
void service_copy(struct service *to, const struct service *from)
{
	to->label_cnt = to->used = 0;
	for (uint32_t i = 0; i < from->label_cnt; i++) {
		const char *name = keep(to, from->labels[i].name);
		const char *value = name ? keep(to, from->labels[i].value) : NULL;

		if (value)
			to->labels[to->label_cnt++] = (struct store_label){ name, value };
	}
}

bool glob_any(const char *const *globs, uint32_t cnt, const char *name)
{
	for (uint32_t i = 0; i < cnt; i++)
		if (!fnmatch(globs[i], name, 0))
			return true;
	return false;
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

struct group {
	struct part unit, path; /* of the last line */
	struct container_name container;
	char pod[POD_UID_MAX + 1];
};

/* The innermost unit and container of all hierarchies. */
static struct group read_group(const char *cgroup)
{
	struct part line = { 0 };
	struct group g = { 0 };

	container_of(cgroup, &g.container);
	if (!container_pod(cgroup, g.pod))
		g.pod[0] = '\0';
	while (*cgroup) {
		struct part p = { cgroup, strcspn(cgroup, "/\n") };

		if (is_service(&p))
			g.unit = p;
		if (!line.at)
			line = p;
		line.len = (size_t)(p.at + p.len - line.at);
		if (cgroup[p.len] != '/') {
			g.path = line;
			line.at = NULL;
		}
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
		service_add(s, STORE_SERVICE, unit->at,
			    instance ? (size_t)(instance - unit->at) : stem);
	else if (run->len)
		service_add(s, STORE_SERVICE, run->at, run->len);
	else if (file.len)
		service_add(s, STORE_SERVICE, file.at, file.len);
	else
		service_add(s, STORE_SERVICE, comm, strlen(comm));
	if (!s->label_cnt)
		service_add(s, STORE_SERVICE, "unknown", 7);
}

static void add_meta(struct service *s, const struct service_facts *f, const struct group *g)
{
	size_t skip = strcspn(g->path.at ? g->path.at : "", "/");
	char number[16];

	snprintf(number, sizeof(number), "%u", f->pid);
	service_add(s, "__meta_process_pid", number, f->pid ? strlen(number) : 0);
	service_add(s, "__meta_process_executable_path", f->exe, strlen(f->exe));
	service_add(s, "__meta_thread_comm", f->comm, strlen(f->comm));
	service_add(s, SERVICE_CONTAINER, g->container.len ? g->container.id : "",
		    g->container.len);
	service_add(s, SERVICE_POD_UID, g->pod, strlen(g->pod));
	if (skip < g->path.len)
		service_add(s, "__meta_process_cgroup", g->path.at + skip, g->path.len - skip);
}

static void add_cmdline(struct service *s, const struct service_facts *f)
{
	char line[VALUE_BYTES];
	size_t len = f->cmdline_len < sizeof(line) ? f->cmdline_len : sizeof(line);

	memcpy(line, f->cmdline, len);
	while (len && !line[len - 1])
		len--;
	for (size_t i = 0; i < len; i++)
		line[i] = line[i] ? line[i] : ' ';
	service_add(s, "__meta_process_cmdline", line, len);
}

void service_by(const struct service_facts *f, struct service *out)
{
	struct group g = read_group(f->cgroup);
	struct part run = run_name(f->cmdline, f->cmdline_len, f->exe), file = base_name(f->exe);

	out->label_cnt = out->used = 0;
	add_name(out, &g.unit, &run, f->comm, f->exe);
	service_add(out, "unit", g.unit.at ? g.unit.at : "", g.unit.len);
	service_add(out, "container_id", g.container.len ? g.container.id : "",
		    g.container.len ? g.container.shown : 0);
	service_add(out, "executable", file.at, file.len);
	service_add(out, "python", f->python, strlen(f->python));
	add_meta(out, f, &g);
	if (f->show_cmdline)
		add_cmdline(out, f);
}

void service_of(pid_t pid, const struct service_facts *facts, struct service *out)
{
	auto_free char *cgroup = NULL, *cmdline = NULL;
	struct service_facts f = *facts;
	size_t len = 0;

	if (proc_file__read(pid, "cgroup", CGROUP_BYTES, &cgroup, &len) >= 0 && cgroup)
		f.cgroup = cgroup;
	if (proc_cmdline(pid, &cmdline, &f.cmdline_len) >= 0 && cmdline)
		f.cmdline = cmdline;
	else
		f.cmdline_len = 0;
	service_by(&f, out);
}
