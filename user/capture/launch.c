// SPDX-License-Identifier: Apache-2.0
#include "capture/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/as_user.h"
#include "base/signals.h"

static void child(int go, int failed, char *const *argv, bool as_root, pid_t parent)
{
	char byte;
	int err;

	signals_inherited();
	/* it must not stay held when we are killed */
	prctl(PR_SET_PDEATHSIG, SIGCONT);
	if (getppid() != parent)
		_exit(125);
	while (read(go, &byte, 1) < 0 && errno == EINTR)
		;
	err = as_root ? 0 : as_user_for_good();
	if (!as_root) /* what lets us trace is nothing that the command should have */
		prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	/* changing the ids clears it */
	prctl(PR_SET_PDEATHSIG, SIGCONT);
	if (!err) {
		execvp(argv[0], argv);
		err = -errno;
	}
	if (write(failed, &err, sizeof(err)) < 0)
		_exit(125);
	_exit(err == -ENOENT ? 127 : 126);
}

int launch__fork(struct launch *l, char *const *argv, bool as_root, struct err *e)
{
	pid_t parent = getpid(), pid;
	int go[2], failed[2];

	if (pipe2(go, O_CLOEXEC))
		return err_set(e, -errno, "no pipe: %s", strerror(errno));
	if (pipe2(failed, O_CLOEXEC)) {
		close(go[0]);
		close(go[1]);
		return err_set(e, -errno, "no pipe: %s", strerror(errno));
	}
	pid = fork();
	if (!pid) {
		close(go[1]);
		close(failed[0]);
		child(go[0], failed[1], argv, as_root, parent);
	}
	close(go[0]);
	close(failed[1]);
	l->pid = pid;
	l->go_fd = go[1];
	l->failed_fd = failed[0];
	if (pid < 0) {
		int err = err_set(e, -errno, "cannot start a process: %s", strerror(errno));

		launch__close(l);
		return err;
	}
	return 0;
}

void launch__go(struct launch *l)
{
	if (l->go_fd >= 0)
		close(l->go_fd);
	l->go_fd = -1;
}

int launch__failed(struct launch *l)
{
	int err = 0;

	if (l->failed_fd < 0 || read(l->failed_fd, &err, sizeof(err)) != sizeof(err))
		return 0;
	return err;
}

void launch__close(struct launch *l)
{
	if (l->go_fd >= 0)
		close(l->go_fd);
	if (l->failed_fd >= 0)
		close(l->failed_fd);
	l->go_fd = l->failed_fd = -1;
}
