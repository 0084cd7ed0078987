// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "base/cleanup.h"
#include "proc/info.h"
#include "proc/maps.h"

static bool uses(pid_t pid, dev_t dev, ino_t ino)
{
	auto_fn(maps__done) struct maps maps = { 0 };

	if (maps__read(pid, &maps))
		return false;
	for (size_t i = 0; i < maps.cnt; i++)
		if (maps.items[i].flags & MAPPING_EXEC && maps.items[i].dev == dev &&
		    maps.items[i].ino == ino)
			return true;
	return false;
}

int proc_file_users(dev_t dev, ino_t ino)
{
	auto_free pid_t *pids = NULL;
	size_t cnt;
	int users = 0, err = proc_pids(&pids, &cnt);

	if (err)
		return err;
	for (size_t i = 0; i < cnt; i++)
		users += uses(pids[i], dev, ino);
	return users;
}
