// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "elf_make.h"

#define DATA make_vaddr(MAKE_DATA)
#define TEXT make_vaddr(MAKE_TEXT)

/* A note at an offset of the file; returns the offset behind it. */
static size_t put_note(struct elf_make *m, size_t at, uint32_t type, const char *name,
		       const void *desc, uint32_t desc_size)
{
	Elf64_Nhdr head = { (uint32_t)strlen(name) + 1, desc_size, type };

	memcpy(m->bytes + at, &head, sizeof(head));
	at += sizeof(head);
	strcpy((char *)m->bytes + at, name);
	at += (head.n_namesz + 3) & ~3u;
	memcpy(m->bytes + at, desc, desc_size);
	return at + ((desc_size + 3) & ~3u);
}

static size_t put_usdt(struct elf_make *m, size_t at, uint64_t semaphore, const char *strings,
		       size_t strings_size)
{
	uint64_t desc[16] = { TEXT + 8, DATA + 0x10, semaphore };

	memcpy(desc + 3, strings, strings_size);
	return put_note(m, at, 3, "stapsdt", desc, 24 + (uint32_t)strings_size);
}

/* A file with a bit of everything. */
static size_t make_all(struct elf_make *m)
{
	static const char entry[] = "python\0function__entry\0"
				    "8@%rax",
			  audit[] = "python\0audit\0";
	size_t at = MAKE_NOTES;

	make_init(m, ET_DYN);
	memset(m->bytes + MAKE_TEXT, 0x90, 64);
	memcpy(m->bytes + MAKE_DATA + 8, &(uint64_t){ TEXT + 4 }, 8);
	make_symbol(m, "first", TEXT, STT_FUNC);
	make_symbol(m, "second", DATA + 32, STT_OBJECT);
	m->relocs[m->reloc_cnt++] =
		(Elf64_Rela){ DATA + 24, ELF64_R_INFO(1, R_X86_64_GLOB_DAT), 0 };
	m->relocs[m->reloc_cnt++] =
		(Elf64_Rela){ DATA, ELF64_R_INFO(0, R_X86_64_RELATIVE), (int64_t)TEXT + 2 };
	at = put_note(m, at, NT_GNU_BUILD_ID, "GNU", "0123456789abcdefghij", 20);
	make_segments(m)[2] = (Elf64_Phdr){ .p_type = PT_NOTE,
					    .p_offset = MAKE_NOTES,
					    .p_filesz = at - MAKE_NOTES };
	at = MAKE_NOTES + 64;
	at = put_usdt(m, at, DATA + 48, entry, sizeof(entry));
	at = put_usdt(m, at, 0, audit, sizeof(audit));
	make_section(m, ".note.stapsdt", SHT_NOTE, 0, MAKE_NOTES + 64, at - MAKE_NOTES - 64);
	/* moved up by 0x20 since it was linked */
	make_section(m, ".stapsdt.base", SHT_PROGBITS, SHF_ALLOC, MAKE_DATA + 0x30, 1);
	return make_finish(m);
}

static struct elf_make made;

static struct elf_file *open_made(size_t size)
{
	struct elf_file *elf = NULL;

	assert_int_equal(make_open_bytes(made.bytes, size, &elf, NULL), 0);
	return elf;
}

static void test_elf__tables(void **state)
{
	struct elf_file *elf = open_made(make_all(&made));
	struct elf_symbol symbol;
	uint8_t id[64];

	(void)state;
	assert_int_equal(elf_file__machine(elf), EM_X86_64);
	assert_false(elf_file__is_fixed(elf));
	assert_int_equal(elf_file__load_vaddr(elf), MAKE_BASE);
	assert_int_equal(elf_file__entry(elf), TEXT);
	assert_false(elf_file__has_interp(elf));
	assert_int_equal(elf_file__symbol(elf, "second", &symbol), 0);
	assert_int_equal(symbol.vaddr, DATA + 32);
	assert_string_equal(symbol.name, "second");
	assert_int_equal(symbol.type, STT_OBJECT);
	assert_int_equal(elf_file__symbol(elf, "third", &symbol), -ENOENT);
	assert_int_equal(elf_file__section_by_name(elf, ".text")->vaddr, TEXT);
	assert_null(elf_file__section_by_name(elf, ".bss"));
	assert_null(elf_file__section(elf, 100));
	assert_int_equal(elf_file__build_id(elf, id), 20);
	assert_memory_equal(id, "0123456789abcdefghij", 20);
	elf_file__free(elf);
}

static void test_elf__addresses(void **state)
{
	struct elf_file *elf = open_made(make_all(&made));
	uint64_t value, start, end;
	uint8_t buf[8];

	(void)state;
	assert_int_equal(elf_file__offset(elf, TEXT + 5, &value), 0);
	assert_int_equal(value, MAKE_TEXT + 5);
	assert_int_equal(elf_file__offset(elf, DATA + 0x2000, &value), -EFAULT);
	assert_int_equal(elf_file__code_at_offset(elf, MAKE_TEXT + 5, &value), 0);
	assert_int_equal(value, TEXT + 5);
	assert_int_equal(elf_file__code_at_offset(elf, MAKE_DATA, &value), -EFAULT);
	assert_int_equal(elf_file__read(elf, TEXT, buf, 8), 0);
	assert_int_equal(buf[7], 0x90);
	assert_int_equal(elf_file__read(elf, DATA + 0x1ffc, buf, 8), -EFAULT);
	assert_int_equal(elf_file__read(elf, UINT64_MAX - 3, buf, 8), -EFAULT);
	assert_true(elf_file__is_code(elf, TEXT));
	assert_false(elf_file__is_code(elf, MAKE_BASE));
	assert_false(elf_file__is_code(elf, DATA));
	assert_true(elf_file__code(elf, 0, &start, &end));
	assert_int_equal(start, TEXT);
	assert_int_equal(end, DATA);
	assert_false(elf_file__code(elf, 1, &start, &end));
	elf_file__free(elf);
}

/* Variables lie behind what the file has bytes for, too. */
static void test_elf__data(void **state)
{
	struct elf_file *elf;
	uint64_t start, end;
	size_t size = make_all(&made);

	(void)state;
	make_segments(&made)[1].p_memsz += 0x3000;
	elf = open_made(size);
	for (uint64_t at = DATA; at < DATA + 0x5000; at += 0x4fff) {
		assert_true(elf_file__data(elf, at, &start, &end));
		assert_int_equal(start, DATA);
		assert_int_equal(end, DATA + 0x5000);
	}
	assert_false(elf_file__data(elf, DATA + 0x5000, &start, &end));
	assert_false(elf_file__data(elf, DATA - 1, &start, &end));
	assert_false(elf_file__data(elf, TEXT, &start, &end));
	elf_file__free(elf);
	make_segments(&made)[1].p_memsz = UINT64_MAX;
	elf = open_made(size);
	assert_true(elf_file__data(elf, DATA, &start, &end));
	assert_int_equal(end, DATA + 0x2000);
	elf_file__free(elf);
}

static void test_elf__pointers_are_relocated(void **state)
{
	struct elf_file *elf = open_made(make_all(&made));
	uint64_t values[4];

	(void)state;
	assert_int_equal(elf_file__pointers(elf, DATA, values, 4), 0);
	assert_int_equal(values[0], TEXT + 2);
	assert_int_equal(values[1], TEXT + 4);
	assert_int_equal(values[2], 0);
	assert_int_equal(values[3], TEXT);
	assert_int_equal(elf_file__pointer(elf, DATA + 24, values), 0);
	assert_int_equal(values[0], TEXT);
	assert_int_equal(elf_file__pointer(elf, DATA + 0x2000, values), -EFAULT);
	elf_file__free(elf);
}

static void test_elf__usdt(void **state)
{
	struct elf_file *elf = open_made(make_all(&made));
	const struct elf_usdt *note = elf_file__usdt(elf, 0);

	(void)state;
	assert_non_null(note);
	assert_string_equal(note->provider, "python");
	assert_string_equal(note->name, "function__entry");
	assert_string_equal(note->args, "8@%rax");
	assert_int_equal(note->vaddr, TEXT + 8 + 0x20);
	assert_int_equal(note->semaphore, DATA + 48 + 0x20);
	note = elf_file__usdt(elf, 1);
	assert_non_null(note);
	assert_string_equal(note->name, "audit");
	assert_string_equal(note->args, "");
	assert_int_equal(note->semaphore, 0);
	assert_null(elf_file__usdt(elf, 2));
	elf_file__free(elf);
}

/* Asks everything; nothing of it may crash, hang or read outside of its own memory. */
static void use(const struct elf_file *elf)
{
	struct elf_symbol symbol;
	uint64_t value, end, words[64];
	const struct elf_usdt *note;
	size_t length = 0, cnt = 0;
	uint64_t *functions;
	uint8_t id[64];

	elf_file__build_id(elf, id);
	elf_file__symbol(elf, "no such symbol", &symbol);
	for (size_t i = 0; elf_file__section(elf, i); i++)
		length += strlen(elf_file__section(elf, i)->name);
	for (size_t i = 0; (note = elf_file__usdt(elf, i)); i++)
		length += strlen(note->provider) + strlen(note->name) + strlen(note->args);
	for (size_t i = 0; elf_file__code(elf, i, &value, &end); i++)
		elf_file__pointers(elf, value, words, 64);
	elf_file__pointers(elf, DATA, words, 64);
	if (!elf_file__functions(elf, &functions, &cnt))
		free(functions);
	assert_true(length < 1u << 20);
}

static void test_elf__every_length(void **state)
{
	size_t size = make_all(&made);

	(void)state;
	for (size_t cut = 0; cut < size; cut += cut < 512 || cut > MAKE_NOTES - 64 ? 1 : 37) {
		struct elf_file *elf = NULL;
		struct err e = { "", "" };
		int err = make_open_bytes(made.bytes, cut, &elf, &e);

		assert_true(!err || err == -PYE_EFORMAT);
		assert_true(!err || e.what[0]);
		if (!err)
			use(elf);
		elf_file__free(elf);
	}
}

static void test_elf__every_bit(void **state)
{
	size_t size = make_all(&made);

	(void)state;
	for (size_t at = 0; at < size; at++) {
		/* code and data are not looked at here */
		if (at >= 64 + 3 * 56 && at < MAKE_NOTES)
			continue;
		for (int bit = 0; bit < 8; bit++) {
			struct elf_file *elf = NULL;

			made.bytes[at] ^= (uint8_t)(1 << bit);
			if (!make_open_bytes(made.bytes, size, &elf, NULL))
				use(elf);
			elf_file__free(elf);
			made.bytes[at] ^= (uint8_t)(1 << bit);
		}
	}
}

static void test_elf__lying_sizes(void **state)
{
	static const uint64_t lies[] = { 1, 23, UINT32_MAX, INT64_MAX, UINT64_MAX, UINT64_MAX - 23 };
	size_t size = make_all(&made);
	Elf64_Shdr *sections = (Elf64_Shdr *)(made.bytes + make_header(&made)->e_shoff);

	(void)state;
	for (size_t i = 0; i < made.section_cnt; i++)
		for (size_t k = 0; k < 4 * sizeof(lies) / sizeof(lies[0]); k++) {
			struct elf_file *elf = NULL;
			Elf64_Shdr kept = sections[i];

			switch (k % 4) {
			case 0:
				sections[i].sh_size = lies[k / 4];
				break;
			case 1:
				sections[i].sh_offset = lies[k / 4];
				break;
			case 2:
				sections[i].sh_addr = lies[k / 4];
				break;
			default:
				sections[i].sh_link = (uint32_t)lies[k / 4];
				break;
			}
			if (!make_open_bytes(made.bytes, size, &elf, NULL))
				use(elf);
			elf_file__free(elf);
			sections[i] = kept;
		}
}

/* A file that is cut while we have it open. */
static void test_elf__cut_meanwhile(void **state)
{
	size_t size = make_all(&made);
	int fd = memfd_create("elf", MFD_CLOEXEC);
	struct elf_file *elf = NULL;
	struct elf_symbol symbol;
	char path[32];
	uint8_t buf[8];

	(void)state;
	assert_int_equal(write(fd, made.bytes, size), size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	assert_int_equal(elf_file__open(path, &elf, NULL), 0);
	assert_int_equal(ftruncate(fd, 100), 0);
	assert_int_equal(elf_file__read(elf, TEXT, buf, 8), -EFAULT);
	assert_int_equal(elf_file__symbol(elf, "first", &symbol), 0);
	use(elf);
	elf_file__free(elf);
	close(fd);
}

static void refuse(const char *path, const char *why)
{
	struct elf_file *elf = NULL;
	struct err e = { "", "" };

	assert_int_equal(elf_file__open(path, &elf, &e), -PYE_EFORMAT);
	assert_non_null(strstr(e.what, why));
	assert_null(elf);
}

static void test_elf__what_is_no_file(void **state)
{
	char dir[] = "/tmp/pyebpf-elf-XXXXXX", path[64];
	struct elf_file *elf = NULL;
	int fd;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/x", dir);
	refuse(dir, "not a regular file");
	refuse("/dev/zero", "not a regular file");
	assert_int_equal(mkfifo(path, 0600), 0);
	refuse(path, "not a regular file");
	unlink(path);
	assert_int_equal(elf_file__open(path, &elf, NULL), -ENOENT);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	refuse(path, "too short");
	assert_int_equal(ftruncate(fd, ((off_t)1 << 30) + 1), 0);
	refuse(path, "1 GiB");
	assert_int_equal(ftruncate(fd, (off_t)1 << 30), 0);
	refuse(path, "not an ELF file");
	close(fd);
	unlink(path);
	rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_elf__tables),
		cmocka_unit_test(test_elf__addresses),
		cmocka_unit_test(test_elf__data),
		cmocka_unit_test(test_elf__pointers_are_relocated),
		cmocka_unit_test(test_elf__usdt),
		cmocka_unit_test(test_elf__every_length),
		cmocka_unit_test(test_elf__every_bit),
		cmocka_unit_test(test_elf__lying_sizes),
		cmocka_unit_test(test_elf__cut_meanwhile),
		cmocka_unit_test(test_elf__what_is_no_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
