// SPDX-License-Identifier: Apache-2.0
#include "proc/info.h"

#include <ctype.h>
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "proc/container.h"
#include "proc/file.h"

static uint64_t namespace_ino(const char *pid, const char *name)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%s/ns/%s", pid, name);
	return stat(path, &st) < 0 ? 0 : st.st_ino;
}

void proc_info_own_ns(uint64_t *mnt_ns, uint64_t *pid_ns)
{
	*mnt_ns = namespace_ino("self", "mnt");
	*pid_ns = namespace_ino("self", "pid");
}

static unsigned int count_words(const char *text, const char *name)
{
	unsigned int cnt = 0;
	long long value;

	while (!proc_file__field(text, name, (int)cnt, &value))
		cnt++;
	return cnt;
}

void proc_info__parse(const char *status, struct proc_info *out)
{
	const char *state = strstr(status, "\nState:\t");
	unsigned int numbers = count_words(status, "NSpid");
	long long value;

	if (state)
		out->state = state[8];
	if (!proc_file__field(status, "PPid", 0, &value))
		out->parent = (pid_t)value;
	if (!proc_file__field(status, "Uid", 1, &value))
		out->uid = (uid_t)value;
	if (!proc_file__field(status, "Threads", 0, &value))
		out->threads = (unsigned int)value;
	if (!proc_file__field(status, "NSpid", -1, &value))
		out->own_pid = (pid_t)value;
	out->depth = numbers ? numbers - 1 : 0;
}

static void read_exe(struct proc_info *out)
{
	char path[32];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/exe", out->pid);
	n = readlink(path, out->exe, sizeof(out->exe) - 1);
	out->exe_err = n < 0 ? -errno : 0;
	out->exe[n < 0 ? 0 : n] = '\0';
}

int proc_info__read(pid_t pid, struct proc_info *out)
{
	auto_free char *status = NULL, *comm = NULL;
	struct proc_info info = { .pid = pid, .own_pid = pid };
	char number[16];
	size_t len;
	int err;

	err = proc_file__read(pid, "status", 8192, &status, &len);
	if (err < 0)
		return err;
	proc_info__parse(status, &info);
	err = proc_file__read(pid, "comm", sizeof(info.comm) - 1, &comm, &len);
	if (err < 0)
		return err;
	if (len && comm[len - 1] == '\n')
		len--;
	memcpy(info.comm, comm, len);
	read_exe(&info);
	snprintf(number, sizeof(number), "%d", pid);
	info.mnt_ns = namespace_ino(number, "mnt");
	info.pid_ns = namespace_ino(number, "pid");
	*out = info;
	return 0;
}

int proc_cmdline(pid_t pid, char **out, size_t *len)
{
	int err = proc_file__read(pid, "cmdline", INFO_CMDLINE_CAP, out, len);

	/* a process that wrote over its arguments may have left no NUL at the end */
	if (err >= 0 && *len && (*out)[*len - 1])
		++*len; /* proc_file__read() put one there */
	return err;
}

int proc_environ(pid_t pid, const char *name, char *out, size_t size)
{
	auto_free char *text = NULL;
	size_t len, n = strlen(name);
	int err;

	err = proc_file__read(pid, "environ", 4u << 20, &text, &len);
	if (err < 0)
		return err;
	for (const char *at = text; at < text + len; at += strlen(at) + 1) {
		if (strncmp(at, name, n) == 0 && at[n] == '=') {
			snprintf(out, size, "%s", at + n + 1);
			return 0;
		}
	}
	return -ENOENT;
}

char *proc_user(uid_t uid, char *out, size_t size)
{
	struct passwd entry, *found = NULL;
	char memory[4096];

	if (getpwuid_r(uid, &entry, memory, sizeof(memory), &found) || !found)
		snprintf(out, size, "%u", uid);
	else
		snprintf(out, size, "%s", entry.pw_name);
	return out;
}

void proc_container(pid_t pid, char *out, size_t size)
{
	auto_free char *text = NULL;
	struct container_name c;
	size_t len;

	out[0] = '\0';
	if (proc_file__read(pid, "cgroup", 16384, &text, &len) < 0 || !container_of(text, &c))
		return;
	snprintf(out, size, c.len ? "%s %.*s" : "%s", c.engine, (int)c.shown, c.id);
}

uint64_t proc_cpu_ns(pid_t pid)
{
	clockid_t clock;

	return clock_getcpuclockid(pid, &clock) ? 0 : clock_ns(clock);
}
