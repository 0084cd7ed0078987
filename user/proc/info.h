/* SPDX-License-Identifier: Apache-2.0 */
/* What /proc tells about a process, for messages and lists. Strings are the process's own choice. */
#ifndef PYEBPF_PROC_INFO_H
#define PYEBPF_PROC_INFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define INFO_CMDLINE_CAP 65536

struct proc_info {
	pid_t pid; /* as /proc shows it */
	pid_t parent; /* 0: none that /proc shows */
	pid_t own_pid; /* as the process sees itself */
	unsigned int depth; /* pid namespaces between this /proc and the process: 0 = the same */
	uid_t uid; /* effective */
	char state; /* R S D T t Z X I, of its main thread */
	unsigned int threads; /* that have not ended; 0: not known */
	char comm[64]; /* any bytes but NUL */
	char exe[4096]; /* link text: the path as the process sees it; "" when it is not known */
	int exe_err; /* 0, or why exe is empty: -EACCES; -ENOENT for a kernel thread or zombie */
	uint64_t mnt_ns, pid_ns; /* inode numbers; 0 when they may not be read */
};

/**
 * proc_info__read - describe a process
 *
 * Return: 0; -ESRCH when it is gone; -ENOMEM; another negative errno. What may not be read is left
 * empty.
 */
int proc_info__read(pid_t pid, struct proc_info *out);

/* proc_info__parse - what the text of a status file says, into @out; what it does not say stays as it is. */
void proc_info__parse(const char *status, struct proc_info *out);

/* proc_info_own_ns - inode numbers of the reader's own namespaces, 0 when unknown. */
void proc_info_own_ns(uint64_t *mnt_ns, uint64_t *pid_ns);

/**
 * proc_cmdline - arguments of a process, each NUL-terminated, one after the other
 * @out: owned (free); @len includes the last NUL; 0 for a kernel thread or a zombie
 *
 * Return: 0; 1 when cut at INFO_CMDLINE_CAP; -ESRCH; -EACCES; -ENOMEM.
 */
int proc_cmdline(pid_t pid, char **out, size_t *len);

/**
 * proc_environ - value of a variable in the environment that a process was started with
 * @out: cut to @size
 *
 * Return: 0; -ENOENT when it is not set; -EACCES; -ESRCH; another negative errno.
 */
int proc_environ(pid_t pid, const char *name, char *out, size_t size);

/* proc_container - short hint what contains the process: "docker 0123456789ab", "pod ..."; "" for
 * none known. From its cgroup's path. */
void proc_container(pid_t pid, char *out, size_t size);

/* proc_user - name of a user as this machine has it, "1000" for one without. Return: @out. */
char *proc_user(uid_t uid, char *out, size_t size);

/**
 * proc_pids - all processes that /proc shows, in rising order
 * @out: owned (free)
 *
 * Return: 0; -ENOENT when /proc is not mounted; -ENOMEM.
 */
int proc_pids(pid_t **out, size_t *cnt);

/* proc_cpu_ns - CPU time that a process has used, by its pid in our namespace; 0: it is gone. */
uint64_t proc_cpu_ns(pid_t pid);

/* proc_file_users - how many processes have mapped code of a file, as maps name it; a negative errno. */
int proc_file_users(dev_t dev, ino_t ino);

#define PROC_DESCENDANTS_MAX 1024 /* of a process that -s begins with */

/**
 * proc_descendants - children of a process, their children and so on, nearer ones first; not the calling process, nor what that started
 * @cap: at most so many
 *
 * Return: how many; a negative errno.
 */
int proc_descendants(pid_t pid, pid_t *out, size_t cap);

#endif
