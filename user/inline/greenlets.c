// SPDX-License-Identifier: Apache-2.0
#include "inline/greenlets.h"

#include <elf.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "inline/remote.h"
#include "inline/scratch.h"
#include "proc/info.h"
#include "proc/maps.h"
#include "proc/root.h"

#define PATHS_BYTES 32768
#define FOLDERS_MAX 256

bool greenlets__are_here(const struct mapping *m)
{
	const char *slash = strrchr(m->path, '/');
	const char *name = slash ? slash + 1 : m->path;

	name += *name == '_';
	return !strncmp(name, "greenlet.", 9) && strstr(name, ".so");
}

/* @folder: absolute, or from where the process is at work */
static bool has(pid_t pid, const char *folder)
{
	char path[2 * PATH_MAX], link[40];
	auto_close int fd = -1;
	ssize_t cnt = 0;

	if (*folder != '/') {
		snprintf(link, sizeof(link), "/proc/%d/cwd", pid);
		cnt = readlink(link, path, PATH_MAX);
		if (cnt <= 0)
			return false;
	}
	snprintf(path + cnt, sizeof(path) - (size_t)cnt, "/%.*s/greenlet", PATH_MAX, folder);
	fd = proc_root__open(pid, path);
	return fd >= 0;
}

/* Of a program in PREFIX/bin, or of a prefix itself. */
static bool is_below(pid_t pid, const char *prefix, const char *up, const char *version)
{
	char path[PATH_MAX + 128];

	snprintf(path, sizeof(path), "%.*s%s/lib/python%s/site-packages", PATH_MAX, prefix, up,
		 version);
	return *prefix && has(pid, path);
}

static bool is_beside(pid_t pid, char *program, const char *version)
{
	char *slash = strrchr(program, '/');

	if (!slash)
		return false;
	*slash = 0;
	return is_below(pid, program, "/..", version);
}

/* One of a list of folders, of the first ones: a program that begins stands still meanwhile. */
static bool is_in_any(pid_t pid, char *folders)
{
	char *next = folders, *one;

	for (int i = 0; i < FOLDERS_MAX && (one = strsep(&next, ":")); i++)
		if (*one && has(pid, one))
			return true;
	return false;
}

static void read_executed(const struct remote *r, char *out)
{
	ssize_t got = remote__read_some(r, inline_auxiliary(r->pid, AT_EXECFN), out, PATH_MAX - 1);

	out[got > 0 ? got : 0] = 0;
}

/* By what the environment names. */
static bool is_named(pid_t pid, const char *version)
{
	static const char *const prefixes[][2] = { { "PYTHONHOME", "" },
						   { "PYTHONUSERBASE", "" },
						   { "HOME", "/.local" } };
	char value[PATHS_BYTES];

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		if (!proc_environ(pid, prefixes[i][0], value, PATH_MAX) &&
		    is_below(pid, value, prefixes[i][1], version))
			return true;
	return !proc_environ(pid, "PYTHONPATH", value, sizeof(value)) && is_in_any(pid, value);
}

bool greenlets__may_come(const struct remote *r, const struct pye_pylayout *layout)
{
	char executed[PATH_MAX], version[16], debian[64];
	struct proc_info program;

	snprintf(version, sizeof(version), "3.%u%s", layout->minor,
		 layout->flags & PYE_LAYOUT_FREE_THREADED ? "t" : "");
	snprintf(debian, sizeof(debian), "/usr/local/lib/python%s/dist-packages", version);
	read_executed(r, executed);
	if (proc_info__read(r->pid, &program))
		*program.exe = 0;
	return is_beside(r->pid, executed, version) || is_beside(r->pid, program.exe, version) ||
	       has(r->pid, "/usr/lib/python3/dist-packages") || has(r->pid, debian) ||
	       is_named(r->pid, version);
}
