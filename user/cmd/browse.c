// SPDX-License-Identifier: Apache-2.0
#include "cmd/browse.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool browse_is_ssh(void)
{
	const char *connection = secure_getenv("SSH_CONNECTION");

	return connection && *connection;
}

/* "CLIENT PORT SERVER PORT" */
const char *browse_ssh_server(char *out, size_t size)
{
	const char *connection = secure_getenv("SSH_CONNECTION");
	const struct passwd *pw = getpwuid(getuid());
	char server[48] = "";
	unsigned char number[16];

	if (!connection || sscanf(connection, "%*47s %*7s %47s", server) != 1 ||
	    (inet_pton(AF_INET, server, number) != 1 && inet_pton(AF_INET6, server, number) != 1))
		snprintf(server, sizeof(server), "THIS-MACHINE");
	snprintf(out, size, "%.*s%s%s", pw ? (int)strcspn(pw->pw_name, " \t\n\x1b") : 0,
		 pw ? pw->pw_name : "", pw ? "@" : "", server);
	return out;
}

static int start(const char *program, const char *url)
{
	char *const argv[] = { (char *)(uintptr_t)program, (char *)(uintptr_t)url, NULL };
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none, all;
	pid_t pid;
	int err;

	sigemptyset(&none);
	sigfillset(&all);
	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attr);
	for (int fd = 0; fd < 3; fd++)
		posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
						POSIX_SPAWN_SETPGROUP);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &all);
	err = posix_spawnp(&pid, program, &actions, &attr, argv, environ);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&actions);
	return -err;
}

int browse_open(const char *url)
{
	const char *named = secure_getenv("BROWSER");

	if (getuid() == 0 || geteuid() == 0)
		return -EPERM;
	if (named && *named)
		return start(named, url);
	if (!secure_getenv("DISPLAY") && !secure_getenv("WAYLAND_DISPLAY"))
		return -ENOENT;
	return start("xdg-open", url);
}
