// SPDX-License-Identifier: Apache-2.0
#include "base/memfile.h"

#include <sys/mman.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif

#define USUAL (MFD_CLOEXEC | MFD_ALLOW_SEALING)

unsigned int memfile_flags(void)
{
	int fd = memfd_create("", USUAL | MFD_NOEXEC_SEAL);

	if (fd < 0)
		return USUAL;
	close(fd);
	return USUAL | MFD_NOEXEC_SEAL;
}

int memfile_open(const char *name)
{
	int fd = memfd_create(name, USUAL | MFD_NOEXEC_SEAL);

	return fd < 0 ? memfd_create(name, USUAL) : fd;
}
