// SPDX-License-Identifier: Apache-2.0
#include "base/as_user.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/outfile.h"

/* A decimal number without sign, space or sign of overflow; not the "no change" id. */
static bool parse_id(const char *s, unsigned int *id)
{
	unsigned long long value = 0;

	if (!s || !*s)
		return false;
	for (; *s; s++) {
		if (*s < '0' || *s > '9')
			return false;
		value = value * 10 + (unsigned int)(*s - '0');
		if (value >= UINT32_MAX)
			return false;
	}
	*id = (unsigned int)value;
	return true;
}

bool outfile_invoker(uid_t *uid, gid_t *gid)
{
	unsigned int u, g;

	*uid = geteuid();
	*gid = getegid();
	if (*uid != 0 || !parse_id(secure_getenv("SUDO_UID"), &u) ||
	    !parse_id(secure_getenv("SUDO_GID"), &g))
		return false;
	*uid = u;
	*gid = g;
	return true;
}

/* The raw calls change the calling thread alone; glibc's change all threads. */
static int set_groups(const gid_t *groups, int cnt)
{
	return (int)syscall(SYS_setgroups, cnt, groups);
}

static int get_groups(gid_t **groups)
{
	int cnt = getgroups(0, NULL);

	*groups = NULL;
	if (cnt <= 0)
		return cnt;
	*groups = calloc((size_t)cnt, sizeof(**groups));
	return *groups ? getgroups(cnt, *groups) : -1;
}

/* The user's groups; only their own one when the user has no name. */
static int set_user_groups(uid_t uid, gid_t gid)
{
	const struct passwd *pw = getpwuid(uid);
	auto_free gid_t *groups = NULL;
	int cnt = 64;

	if (!pw)
		return set_groups(&gid, 1);
	for (int i = 0; i < 2; i++) {
		free(groups);
		groups = calloc((size_t)cnt, sizeof(*groups));
		if (!groups)
			return -1;
		if (getgrouplist(pw->pw_name, gid, groups, &cnt) >= 0)
			return set_groups(groups, cnt);
	}
	return set_groups(&gid, 1);
}

int as_user__enter(struct as_user *was)
{
	uid_t uid;
	gid_t gid;

	*was = (struct as_user){ 0 };
	if (!outfile_invoker(&uid, &gid) || uid == 0)
		return 0;
	was->group_cnt = get_groups(&was->groups);
	if (was->group_cnt < 0)
		return -ENOMEM;
	if (set_user_groups(uid, gid)) {
		free(was->groups);
		return -EPERM;
	}
	was->changed = true;
	was->gid = (gid_t)setfsgid(gid);
	was->uid = (uid_t)setfsuid(uid);
	if ((gid_t)setfsgid((gid_t)-1) == gid && (uid_t)setfsuid((uid_t)-1) == uid)
		return 0;
	as_user__leave(was);
	return -EPERM;
}

void as_user__leave(struct as_user *was)
{
	if (!was->changed)
		return;
	setfsuid(was->uid);
	setfsgid(was->gid);
	/* root that could not get its own ids back must not go on with a mixture */
	if ((uid_t)setfsuid((uid_t)-1) != was->uid || (gid_t)setfsgid((gid_t)-1) != was->gid ||
	    set_groups(was->groups, was->group_cnt))
		abort();
	free(was->groups);
	*was = (struct as_user){ 0 };
}

int as_user_for_good(void)
{
	const struct passwd *pw;
	uid_t uid;
	gid_t gid;

	if (!outfile_invoker(&uid, &gid))
		return 0;
	pw = getpwuid(uid);
	if (pw ? initgroups(pw->pw_name, gid) : setgroups(0, NULL))
		return -errno;
	if (setresgid(gid, gid, gid) || setresuid(uid, uid, uid))
		return -errno;
	if (getuid() != uid || geteuid() != uid || getgid() != gid || getegid() != gid)
		return -EPERM;
	if (pw) {
		setenv("HOME", pw->pw_dir, 1);
		setenv("USER", pw->pw_name, 1);
		setenv("LOGNAME", pw->pw_name, 1);
		setenv("SHELL", pw->pw_shell, 1);
	}
	return 0;
}
