// SPDX-License-Identifier: Apache-2.0
#include "inline/stub_clock.h"

#include <cpuid.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/memfile.h"
#include "elf/elf_file.h"
#include "proc/maps.h"

#define CLOCKS	    "/sys/devices/system/clocksource/clocksource0/available_clocksource"
#define TRIES	    9
#define COST_READS  1000
#define VDSO_BYTES  65536u
#define UNSTEADY_HZ 2000000000ull /* about */
#define VDSO_CLOCK  "__vdso_clock_gettime"

uint64_t tsc_now(void)
{
	return __builtin_ia32_rdtsc();
}

double tsc_cost_ns(void)
{
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < TRIES; i++) {
		uint64_t began = now_ns(), took;

		for (int k = 0; k < COST_READS; k++)
			tsc_now();
		took = now_ns() - began;
		least = took < least ? took : least;
	}
	return (double)least / COST_READS;
}

/* Of some tries the one that took the least time, its middle: a thread can be kept waiting in any of them. */
struct clock_pair clock_pair_read(void)
{
	struct clock_pair best = { 0 };
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < TRIES; i++) {
		uint64_t before = tsc_now(), ns = now_ns(), took = tsc_now() - before;

		if (took >= least)
			continue;
		least = took;
		best = (struct clock_pair){ before + took / 2, ns };
	}
	return best;
}

/* It strikes the counter off its list when it sees it go astray, or differ between processors. */
static bool kernel_trusts_tsc(void)
{
	char clocks[256] = "";
	auto_fclose FILE *f = fopen(CLOCKS, "re");

	if (!f || !fgets(clocks, sizeof(clocks), f))
		return true; /* it does not say: a container without /sys */
	for (char *rest, *name = strtok_r(clocks, " \n", &rest); name;
	     name = strtok_r(NULL, " \n", &rest))
		if (!strcmp(name, "tsc"))
			return true;
	return false;
}

bool tsc_is_steady(void)
{
	static int steady = -1; /* capture and engine have to agree */
	unsigned int a, b, c, d;

	if (steady < 0)
		steady = __get_cpuid(0x80000007, &a, &b, &c, &d) && d & 1u << 8 &&
			 kernel_trusts_tsc();
	return steady;
}

uint64_t tsc_per_second(void)
{
	struct clock_pair from = clock_pair_read(), to;

	if (!tsc_is_steady())
		return UNSTEADY_HZ;
	usleep(2000);
	to = clock_pair_read();
	return (uint64_t)((double)(to.tsc - from.tsc) * 1e9 / (double)(to.ns - from.ns));
}

/* What the kernel has mapped into us. Its size, or a negative errno. */
static ssize_t own_vdso(const uint8_t **image)
{
	auto_fn(maps__done) struct maps maps = { 0 };
	const struct mapping *vdso;
	int err = maps__read(getpid(), &maps);

	if (err)
		return err;
	vdso = maps__vdso(&maps);
	if (!vdso)
		return -ENOENT;
	*image = (const void *)(uintptr_t)vdso->start;
	return (ssize_t)(vdso->end - vdso->start);
}

/* That of a process is the same, unless it has changed it: then nobody knows what it does. */
static int check_same(pid_t pid, const struct mapping *vdso, const uint8_t *own, size_t bytes)
{
	uint8_t theirs[VDSO_BYTES];
	struct iovec here = { theirs, bytes }, there = { (void *)(uintptr_t)vdso->start, bytes };

	if (bytes > sizeof(theirs))
		return -E2BIG;
	if (vdso->end - vdso->start != bytes)
		return -ENOENT;
	if (process_vm_readv(pid, &here, 1, &there, 1, 0) != (ssize_t)bytes)
		return -EFAULT;
	return memcmp(theirs, own, bytes) ? -ENOENT : 0;
}

/* Offset of the symbol in an image. */
static int find_offset(const uint8_t *image, size_t bytes, uint64_t *offset)
{
	auto_close int fd = memfile_open("vdso");
	struct elf_symbol symbol;
	struct elf_file *elf;
	struct err e;
	int err;

	if (fd < 0)
		return -errno;
	if (pwrite(fd, image, bytes, 0) != (ssize_t)bytes)
		return -EIO;
	err = elf_file__from_fd(fd, "[vdso]", &elf, &e);
	if (err)
		return err;
	take_fd(&fd);
	err = elf_file__symbol(elf, VDSO_CLOCK, &symbol);
	if (!err && (symbol.vaddr >= bytes || !elf_file__is_code(elf, symbol.vaddr)))
		err = -ENOENT;
	if (!err)
		*offset = symbol.vaddr;
	elf_file__free(elf);
	return err;
}

/* A target can write into its vdso: ours alone is parsed. */
int stub_clock_find(pid_t pid, const struct maps *maps, uint64_t *at)
{
	const struct mapping *vdso = maps__vdso(maps);
	const uint8_t *own = NULL;
	ssize_t bytes = vdso ? own_vdso(&own) : -ENOENT;
	uint64_t offset = 0;
	int err = own ? check_same(pid, vdso, own, (size_t)bytes) : -ENOENT;

	if (!err)
		err = find_offset(own, (size_t)bytes, &offset);
	if (!err)
		*at = vdso->start + offset;
	return err;
}

bool stub_clock_is_shifted(pid_t pid)
{
	char path[40];
	struct stat ours, theirs;

	snprintf(path, sizeof(path), "/proc/%d/ns/time", pid);
	return !stat("/proc/self/ns/time", &ours) && !stat(path, &theirs) &&
	       ours.st_ino != theirs.st_ino;
}
