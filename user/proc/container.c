// SPDX-License-Identifier: Apache-2.0
#include "proc/container.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ID_DIGITS     64
#define ID_SHOWN      12
#define ID_DIGITS_MIN 32 /* where the engine is known: ECS has such */

bool cgroup_line__next(const char **text, struct cgroup_line *out)
{
	while (**text) {
		const char *line = *text, *end = line + strcspn(line, "\n"), *colon;
		char *rest;
		unsigned long number;

		*text = *end ? end + 1 : end;
		errno = 0;
		number = strtoul(line, &rest, 10);
		if (*line < '0' || *line > '9' || *rest != ':' || errno || number > INT32_MAX)
			continue;
		rest++;
		colon = memchr(rest, ':', (size_t)(end - rest));
		if (!colon || colon[1] != '/')
			continue;
		*out = (struct cgroup_line){ .hierarchy = (uint32_t)number,
					     .controllers = rest,
					     .controllers_len = (size_t)(colon - rest),
					     .path = colon + 1,
					     .path_len = (size_t)(end - colon - 1) };
		return true;
	}
	return false;
}

/* A name that is made of what is before the id; longer ones first where one begins like another. */
/* clang-format off */
static const struct form {
	const char *before, *engine; /* no engine: something of the engine's that is no container */
} forms[] = {
	{ "crio-conmon-", NULL }, { "libpod-conmon-", NULL },
	{ "docker-", "docker" }, { "libpod-payload-", "podman" }, { "libpod-", "podman" },
	{ "cri-containerd-", "containerd" }, { "cri-containerd:", "containerd" }, { "nerdctl-", "containerd" },
	{ "crio-", "cri-o" }, { "cri-o:", "cri-o" },
};

/* A name that is no id: "lxc.payload.web", "machine-web.scope". */
static const struct form named[] = {
	{ "lxc.monitor.", NULL }, { "lxc.payload.", "lxc" }, { "machine-", "machine" },
	{ "systemd-nspawn@", "machine" },
};

/* What is above, where the component itself is nothing but the id or a name. */
static const struct above {
	const char *name, *engine;
	bool begins; /* with it; else it is all of it */
	bool ids; /* only ids, no names */
} owners[] = {
	{ "kubepods", "kubernetes", true, true }, { "docker", "docker", false, true },
	{ "libpod_parent", "podman", false, true }, { "lxc", "lxc", false, false },
	{ "lxc.payload", "lxc", false, false }, { "ecs", "ecs", false, true },
	{ "default", "containerd", false, true }, { "k8s.io", "containerd", false, true },
	{ "moby", "docker", false, true },
};
/* clang-format on */

enum {
	FORMS = sizeof(forms) / sizeof(forms[0]),
	NAMED = sizeof(named) / sizeof(named[0]),
	OWNERS = sizeof(owners) / sizeof(owners[0])
};

struct part {
	const char *at;
	size_t len;
};

static bool begins(const struct part *p, const char *with)
{
	size_t n = strlen(with);

	return p->len >= n && !memcmp(p->at, with, n);
}

static bool is(const struct part *p, const char *name)
{
	return p->len == strlen(name) && begins(p, name);
}

/* The first run of as many hex digits; its length, or 0. */
static size_t digits(const struct part *p, size_t least, size_t *at)
{
	size_t run = 0;

	for (size_t i = 0; i < p->len; i++) {
		char c = p->at[i];

		if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')) {
			run++;
			continue;
		}
		if (run >= least) {
			*at = i - run;
			return run;
		}
		run = 0;
	}
	*at = p->len - run;
	return run >= least ? run : 0;
}

/* The component that ends before @from; false: there is none. */
static bool part_above(const char *path, size_t from, struct part *out)
{
	size_t end = from ? from - 1 : 0, at = end;

	while (at && path[at - 1] != '/')
		at--;
	*out = (struct part){ path + at, end - at };
	return end > 0;
}

static const struct above *find_above(const char *path, size_t from)
{
	struct part p;

	while (part_above(path, from, &p)) {
		for (size_t i = 0; i < OWNERS; i++)
			if (owners[i].begins ? begins(&p, owners[i].name) : is(&p, owners[i].name))
				return &owners[i];
		from = (size_t)(p.at - path);
	}
	return NULL;
}

/* What comes before an id, in its own name: "docker-", "kubepods-...-pod<uid>.slice:cri-containerd:". */
static const struct form *find_form(const struct part *p, size_t id_at)
{
	for (size_t i = 0; i < FORMS; i++) {
		size_t n = strlen(forms[i].before);

		if (id_at >= n && !memcmp(p->at + id_at - n, forms[i].before, n))
			return &forms[i];
	}
	return NULL;
}

static bool in_kubernetes(const char *path, size_t len)
{
	return memmem(path, len, "/kubepods", 9) != NULL;
}

static bool at_id(const char *path, const struct part *p, size_t from, struct container_name *out)
{
	size_t at, n = digits(p, ID_DIGITS_MIN, &at);
	const struct form *form = n ? find_form(p, at) : NULL;
	const struct above *above;

	if (!n || (form && !form->engine))
		return false;
	out->id = p->at + at;
	out->len = n;
	out->shown = ID_SHOWN;
	out->engine = form ? form->engine : NULL;
	if (!form) {
		/* nothing but the id: systemd has long names of its own for what it runs */
		above = at || n < p->len ? NULL : find_above(path, from);
		if (!above && n < ID_DIGITS)
			return false;
		out->engine = above ? above->engine : "container";
	}
	if (in_kubernetes(path, from + p->len))
		out->engine = "kubernetes";
	return true;
}

/* "machine-web.scope" is web; a name is cut nowhere else, it may have dots in it. */
static size_t without_unit(const char *name, size_t len)
{
	static const char *const ends[] = { ".scope", ".service", ".slice" };

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		size_t n = strlen(ends[i]);

		if (len > n && !memcmp(name + len - n, ends[i], n))
			return len - n;
	}
	return len;
}

static bool at_name(const char *path, const struct part *p, size_t from, struct container_name *out)
{
	const struct above *above;
	struct part parent;

	for (size_t i = 0; i < NAMED; i++) {
		size_t n = strlen(named[i].before);

		if (!begins(p, named[i].before) || p->len == n)
			continue;
		if (!named[i].engine)
			return false;
		out->engine = named[i].engine;
		out->id = p->at + n;
		out->len = out->shown = without_unit(out->id, p->len - n);
		return !begins(p, "machine-") || out->len < p->len - n;
	}
	above = find_above(path, from);
	/* a name counts right below its engine only: a container has cgroups of its own */
	if (!above || above->ids || !part_above(path, from, &parent) || !is(&parent, above->name))
		return false;
	*out = (struct container_name){ above->engine, p->at, p->len, p->len, 0 };
	return true;
}

bool container_at(const char *path, size_t len, size_t from, struct container_name *out)
{
	const char *end = memchr(path + from, '/', len - from);
	struct part p = { path + from, end ? (size_t)(end - path) - from : len - from };

	if (!p.len || !(at_id(path, &p, from, out) || at_name(path, &p, from, out)))
		return false;
	out->end = from + p.len;
	return true;
}

bool container_in(const char *path, size_t len, struct container_name *out)
{
	struct container_name one;
	bool found = false;

	for (size_t i = 0; i < len; i++) {
		if (path[i] != '/' || !container_at(path, len, i + 1, &one))
			continue;
		*out = one;
		found = true;
	}
	if (!found && in_kubernetes(path, len)) {
		*out = (struct container_name){ .engine = "kubernetes", .id = path, .end = len };
		found = true;
	}
	return found;
}

bool container_of(const char *text, struct container_name *out)
{
	struct cgroup_line line;
	bool found = false;

	while (cgroup_line__next(&text, &line)) {
		struct container_name one;

		if (!container_in(line.path, line.path_len, &one) || (found && !one.len))
			continue;
		*out = one;
		found = true;
		if (one.len)
			break;
	}
	return found;
}

/* "pod<uid>" of kubelet's cgroupfs driver, "kubepods-burstable-pod<uid>.slice" of its systemd driver, which has underscores for dashes. */
static bool pod_at(const char *path, size_t len, char uid[POD_UID_MAX + 1])
{
	size_t n = 0;

	while (n < len && n <= POD_UID_MAX && strchr("0123456789abcdef-_", path[n]) && path[n])
		n++;
	if (n < POD_UID_MIN || n > POD_UID_MAX || (n < len && path[n] != '/' && path[n] != '.'))
		return false;
	memcpy(uid, path, n);
	uid[n] = '\0';
	for (char *dash = uid; (dash = strchr(dash, '_'));)
		*dash = '-';
	return true;
}

bool container_pod(const char *text, char uid[POD_UID_MAX + 1])
{
	struct cgroup_line line;
	bool found = false;

	while (!found && cgroup_line__next(&text, &line)) {
		/* below "kubelet-kubepods.slice", too; from a namespace of cgroups of our own what is above is not shown */
		if (!memmem(line.path, line.path_len, "kubepods", 8) &&
		    (line.path_len < 3 || memcmp(line.path, "/..", 3) != 0))
			continue;
		for (size_t i = 1; i + 3 < line.path_len && !found; i++)
			found = (line.path[i - 1] == '/' || line.path[i - 1] == '-') &&
				!memcmp(line.path + i, "pod", 3) &&
				pod_at(line.path + i + 3, line.path_len - i - 3, uid);
	}
	return found;
}
