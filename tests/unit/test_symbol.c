// SPDX-License-Identifier: Apache-2.0
/* Names for addresses of code: the kernel's list, the functions of a file, those of a process. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/err.h"
#include "elf_make.h"
#include "symbol/kallsyms.h"
#include "symbol/symbols.h"
#include "symbol/table.h"

static struct kallsyms *parsed(const char *text, int want)
{
	struct kallsyms *k = NULL;

	assert_int_equal(kallsyms__parse(&k, strdup(text), strlen(text)), want);
	return k;
}

static void check_kernel(const struct kallsyms *k, uint64_t addr, const char *name,
			 const char *module)
{
	struct kallsym found;

	assert_int_equal(kallsyms__find(k, addr, &found), 0);
	assert_string_equal(found.name, name);
	assert_string_equal(found.module, module);
}

static void the_kernels_list(void **state)
{
	struct kallsyms *k = parsed("ffffffff81000100 T second\n"
				    "ffffffff81000000 T first\n"
				    "ffffffff81000100 t alias_of_second\n"
				    "ffffffff81000180 D a_variable\n"
				    "not an address T x\n"
				    "ffffffff81000300 W\n"
				    "ffffffffa0000000 t in_module\t[ext4]\n"
				    "ffffffffa0000040 t without_end\t[ext4]",
				    0);
	struct kallsym one, other;

	(void)state;
	check_kernel(k, 0xffffffff81000000, "first", "");
	check_kernel(k, 0xffffffff810000ff, "first", "");
	/* data is nobody's code, and no line without a name is taken */
	check_kernel(k, 0xffffffff81000301, "second", "");
	check_kernel(k, 0xffffffffa0000001, "in_module", "[ext4]");
	check_kernel(k, 0xffffffffa0000041, "without_end", "[ext4]");
	assert_int_equal(kallsyms__find(k, 0xffffffff80ffffff, &one), -ENOENT);
	assert_int_equal(kallsyms__find(k, 0xffffffff90000000, &one), -ENOENT);
	/* one number for all of a function */
	assert_int_equal(kallsyms__find(k, 0xffffffff81000100, &one), 0);
	assert_int_equal(kallsyms__find(k, 0xffffffff81000110, &other), 0);
	assert_int_equal(one.number, other.number);
	kallsyms__free(k);
}

static void a_hidden_list(void **state)
{
	(void)state;
	assert_null(parsed("0000000000000000 T first\n0000000000000000 t second\n", -EPERM));
	assert_null(parsed("", -EPERM));
	assert_null(parsed("no list at all\n", -EPERM));
}

static int made(struct elf_make *m)
{
	size_t size = make_finish(m);
	int fd = memfd_create("elf", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, m->bytes, size), (ssize_t)size);
	return fd;
}

static void check_name(const struct symbol_table *t, uint64_t offset, const char *want)
{
	uint32_t symbol = symbol_table__find(t, offset);

	if (!want) {
		assert_int_equal(symbol, SYMBOL_NONE);
		return;
	}
	assert_int_not_equal(symbol, SYMBOL_NONE);
	assert_string_equal(symbol_table__name(t, symbol), want);
}

static void the_functions_of_a_file(void **state)
{
	struct elf_make m;
	struct symbol_table *t = NULL;
	int fd;

	(void)state;
	make_init(&m, ET_DYN);
	make_symbol(&m, "second", make_vaddr(MAKE_TEXT + 64), STT_FUNC);
	make_symbol(&m, "first", make_vaddr(MAKE_TEXT), STT_FUNC);
	make_symbol(&m, "variable", make_vaddr(MAKE_DATA), STT_OBJECT);
	make_symbol(&m, "object_in_code", make_vaddr(MAKE_TEXT + 32), STT_OBJECT);
	make_symbol(&m, "function_in_data", make_vaddr(MAKE_DATA + 8), STT_FUNC);
	m.symbols[m.symbol_cnt - 5].st_size = 0; /* second: up to the next one */
	fd = made(&m);
	assert_int_equal(symbol_table__read(&t, fd, "made"), 0);
	check_name(t, MAKE_TEXT, "first");
	check_name(t, MAKE_TEXT + 15, "first");
	check_name(t, MAKE_TEXT + 16, NULL); /* behind its end */
	check_name(t, MAKE_TEXT + 40, NULL);
	check_name(t, MAKE_TEXT + 64, "second");
	check_name(t, MAKE_TEXT + 1000, "second");
	check_name(t, MAKE_DATA + 8, NULL);
	check_name(t, MAKE_SIZE * 100ull, NULL);
	assert_string_equal(symbol_table__name(t, SYMBOL_NONE), "");
	symbol_table__free(t);
	close(fd);
}

static void what_is_no_file_of_functions(void **state)
{
	struct symbol_table *t = NULL;
	struct elf_make m;
	int fd = memfd_create("text", MFD_CLOEXEC);

	(void)state;
	assert_int_equal(write(fd, "#!/bin/sh\n", 10), 10);
	assert_int_equal(symbol_table__read(&t, fd, "text"), -PYE_EFORMAT);
	assert_null(t);
	close(fd);
	make_init(&m, ET_DYN);
	fd = made(&m);
	assert_int_equal(symbol_table__read(&t, fd, "no symbols"), 0);
	check_name(t, MAKE_TEXT, NULL);
	symbol_table__free(t);
	close(fd);
}

__attribute__((noinline)) int symbol_test_function(int x); /* exported, so that it has a name */
int symbol_test_function(int x)
{
	return x + (int)getpid();
}

static void the_functions_of_a_process(void **state)
{
	struct symbol_space *space = symbol_space__new(getpid());
	uint64_t addr = (uint64_t)&symbol_test_function;
	struct symbol one, other, open_;
	struct symbols *s = NULL;

	(void)state;
	assert_int_equal(symbols__new(&s), 0);
	assert_int_equal(symbols__user(s, space, addr, false, &one), 0);
	assert_string_equal(one.name, "symbol_test_function");
	assert_non_null(strstr(one.file, "test_symbol"));
	assert_int_equal(symbols__user(s, space, addr + 1, false, &other), 0);
	assert_true(one.key && one.key == other.key && one.piece == other.piece);
	/* of a library */
	assert_int_equal(symbols__user(s, space, (uint64_t)&memfd_create, false, &open_), 0);
	assert_string_equal(open_.name, "memfd_create");
	assert_non_null(strstr(open_.file, "libc"));
	assert_true(open_.key != one.key && open_.piece != one.piece);
	/* no code: the stack, nothing at all */
	assert_int_equal(symbols__user(s, space, (uint64_t)&one, false, &other), -ENOENT);
	assert_int_equal(symbols__user(s, space, 8, true, &other), -ENOENT);
	assert_int_equal(symbols__piece(s, 12345, 12345, 0), 0);
	symbol_space__free(space);
	symbols__free(s);
}

static void code_without_a_file(void **state)
{
	struct symbol_space *space = symbol_space__new(getpid());
	struct symbols *s = NULL;
	struct symbol found;
	void *code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_true(code != MAP_FAILED);
	assert_int_equal(symbols__new(&s), 0);
	assert_int_equal(symbols__user(s, space, (uint64_t)code, false, &found), 0);
	assert_string_equal(found.name, "[code without a file]");
	assert_string_equal(found.file, "");
	assert_true(found.key && found.piece);
	/* what was never read has a name all the same */
	symbols__kernel(s, 0xffffffff81000000, &found);
	assert_string_equal(found.name, "[kernel]");
	munmap(code, 4096);
	symbol_space__free(space);
	symbols__free(s);
}

static void a_process_that_is_gone(void **state)
{
	struct symbol_space *space = symbol_space__new(0x7fffffff);
	struct symbols *s = NULL;
	struct symbol found;

	(void)state;
	assert_int_equal(symbols__new(&s), 0);
	assert_true(symbols__user(s, space, 4096, true, &found) < 0);
	symbol_space__free(space);
	symbols__free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_kernels_list),
		cmocka_unit_test(a_hidden_list),
		cmocka_unit_test(the_functions_of_a_file),
		cmocka_unit_test(what_is_no_file_of_functions),
		cmocka_unit_test(the_functions_of_a_process),
		cmocka_unit_test(code_without_a_file),
		cmocka_unit_test(a_process_that_is_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
