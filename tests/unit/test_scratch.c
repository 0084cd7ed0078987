// SPDX-License-Identifier: Apache-2.0
/* Where the injected calls may run: a file that is the memory of a process, and what its maps say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <elf.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "inline/engine.h"
#include "inline/region.h"
#include "inline/remote.h"
#include "inline/remote_call.h"
#include "inline/scratch.h"
#include "proc/maps.h"

#define START 0x500000
#define CODE  0x1000 /* of the file: its code begins there */
#define END   (START + 0x3000)

static const char usual[] = "500000-501000 r--p 00000000 08:01 7 /f\n"
			    "501000-503000 r-xp 00001000 08:01 7 /f\n";

static struct remote remote;

static int setup(void **state)
{
	(void)state;
	remote.mem = memfd_create("memory", MFD_CLOEXEC);
	return remote.mem < 0 || ftruncate(remote.mem, 2 * START) ? -1 : 0;
}

static int teardown(void **state)
{
	(void)state;
	return close(remote.mem);
}

/* Its code has so many bytes. */
static void put_file(uint64_t vaddr, uint64_t bytes)
{
	const Elf64_Ehdr e = { .e_ident = ELFMAG, .e_phoff = sizeof(e), .e_phnum = 2 };
	const Elf64_Phdr p[2] = {
		{ .p_type = PT_LOAD, .p_vaddr = vaddr, .p_filesz = 0x900, .p_memsz = 0x900 },
		{ .p_type = PT_LOAD,
		  .p_flags = PF_R | PF_X,
		  .p_offset = CODE,
		  .p_vaddr = vaddr + CODE,
		  .p_filesz = bytes,
		  .p_memsz = bytes }
	};

	assert_int_equal(pwrite(remote.mem, &e, sizeof(e), START), sizeof(e));
	assert_int_equal(pwrite(remote.mem, p, sizeof(p), START + sizeof(e)), sizeof(p));
}

static uint64_t room_in(const char *text)
{
	struct maps maps;
	uint64_t at;

	assert_int_equal(maps__parse(strdup(text), strlen(text), &maps), 0);
	at = inline_room(&remote, &maps, START);
	maps__done(&maps);
	return at;
}

static void test_scratch__behind_the_code(void **state)
{
	(void)state;
	put_file(0, 0x1801);
	assert_int_equal(room_in(usual), START + CODE + 0x1810);
	put_file(START, 0x1801); /* it has its place */
	assert_int_equal(room_in(usual), START + CODE + 0x1810);
	put_file(0, 0x2000 - REMOTE_SCRATCH_BYTES);
	assert_int_equal(room_in(usual), END - REMOTE_SCRATCH_BYTES);
}

static void test_scratch__no_room(void **state)
{
	static const uint64_t bytes[] = { 0x2000 - REMOTE_SCRATCH_BYTES + 1, 0x1ff1, 0x2000, 0x2001,
					  UINT64_MAX };

	(void)state;
	for (size_t i = 0; i < sizeof(bytes) / sizeof(*bytes); i++) {
		put_file(0, bytes[i]);
		assert_int_equal(room_in(usual), 0);
	}
}

/* It is what is mapped there, as it is in the file, and where it is looked for later. */
static void test_scratch__other_mappings(void **state)
{
	static const char *const bad[] = {
		"500000-501000 r--p 00000000 08:01 7 /f\n501000-503000 r--p 00001000 08:01 7 /f\n",
		"500000-501000 r--p 00000000 08:01 7 /f\n501000-503000 r-xs 00001000 08:01 7 /f\n",
		"500000-501000 r--p 00000000 08:01 7 /f\n501000-503000 r-xp 00002000 08:01 7 /f\n",
		"500000-501000 r--p 00000000 08:01 7 /f\n501000-503000 r-xp 00001000 08:01 8 /g\n",
		"500000-501000 r--p 00000000 08:01 7 /f\n501000-503000 r-xp 00000000 00:00 0\n",
		"500000-501000 r--p 00000000 08:01 7 /f\n501000-504000 r-xp 00001000 08:01 7 /f\n",
		"500000-501000 r--p 00000000 08:01 7 /f\n501000-502000 r-xp 00001000 08:01 7 /f\n",
		"501000-503000 r-xp 00001000 08:01 7 /f\n",
		"",
	};

	(void)state;
	put_file(0, 0x1801);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(room_in(bad[i]), 0);
}

/* In a process with an interpreter that has none: in its executable, or the loader. */
static void test_scratch__elsewhere(void **state)
{
	struct remote own = { .pid = getpid() };
	const struct mapping *m;
	struct maps maps;

	(void)state;
	assert_int_equal(inline_auxiliary(own.pid, AT_PHDR), getauxval(AT_PHDR));
	assert_int_equal(maps__read(own.pid, &maps), 0);
	own.mem = remote.mem;
	assert_int_equal(inline_find_scratch(&own, START), -2 /* ENOENT */);
	assert_int_equal(remote__open(&own, getpid(), NULL), 0);
	assert_int_equal(inline_find_scratch(&own, START), 0);
	m = maps__find(&maps, own.scratch);
	assert_non_null(m);
	assert_true(m->flags & MAPPING_EXEC && m->ino);
	maps__done(&maps);
	remote__close(&own);
}

#define THEIRS (8u << 20)

/* A child that has mapped something, and waits. */
static pid_t start(uint8_t **mapped)
{
	pid_t pid;

	*mapped = mmap(NULL, THEIRS, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(*mapped, MAP_FAILED);
	memset(*mapped, 7, THEIRS);
	pid = fork();
	if (!pid && !prctl(PR_SET_PDEATHSIG, SIGKILL))
		for (;;)
			pause();
	return pid;
}

/* It is not always known that the stubs were unmapped: what the target has there since is none of ours. */
static void test_scratch__unmapped_before(void **state)
{
	struct il_header h = { .magic = IL_MAGIC, .region_bytes = THEIRS };
	struct remote r;
	uint8_t *mapped, byte = 0;
	bool left = true;
	pid_t pid = start(&mapped);

	(void)state;
	assert_int_equal(remote__open(&r, pid, NULL), 0);
	assert_int_equal(inline_find_scratch(&r, START), 0);
	h.scratch = r.scratch;
	assert_int_equal(inline_undo(&r, (uint64_t)(uintptr_t)mapped, &h, &left), 0);
	assert_false(left);
	assert_int_equal(remote__read(&r, (uint64_t)(uintptr_t)mapped + THEIRS - 1, &byte, 1), 0);
	assert_int_equal(byte, 7);
	/* and once more where there is nothing any more */
	munmap(mapped, THEIRS);
	assert_int_equal(inline_undo(&r, 0x10000, &h, &left), 0);
	assert_false(left);
	remote__close(&r);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_scratch__behind_the_code),
		cmocka_unit_test(test_scratch__no_room),
		cmocka_unit_test(test_scratch__other_mappings),
		cmocka_unit_test(test_scratch__elsewhere),
		cmocka_unit_test(test_scratch__unmapped_before),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
