// SPDX-License-Identifier: Apache-2.0
/*
 * What is searched for in all of an interpreter's code, some 10 MB, and several times: byte by byte, with no disassembler, so
 * that nothing is missed. What may be no instruction is for the callers to find out.
 */
#include "cpython/disasm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/grow.h"
#include "elf/elf_file.h"

#define SCAN_CHUNK  ((size_t)256 << 10)
#define BLOCK_BYTES 16 /* that are looked at at once */
/* of what begins at the end of a chunk; the last block is looked at as a whole */
#define TAIL_BYTES (BLOCK_BYTES + 12)
#define BRANCH_MAX (1u << 20)
#define BYTE_TEST  0x80 /* cmp of a byte with a constant, and others */
/* from a block with a short jump to where it leads, or back */
#define SHORT_MAX (130ull + BLOCK_BYTES)

struct branch_list {
	struct disasm_branch *items;
	uint32_t cnt, size;
};

/* What a look at all bytes of the code is for. @code has TAIL_BYTES readable bytes past @size. */
struct scan {
	int (*bytes)(struct scan *s, const uint8_t *code, uint64_t addr, size_t size);
	struct disasm_range hull; /* of the ranges, or addresses */
	const struct disasm_range *ranges;
	size_t range_cnt;
	struct branch_list branches;
	const uint64_t *wanted;
	size_t wanted_cnt;
	bool fixed; /* addresses are constants */
	uint8_t disp;
	uint64_t *out;
	size_t max, cnt;
};

static int scan_range(struct scan *s, const struct elf_file *elf, uint8_t *buf, uint64_t start,
		      uint64_t end)
{
	for (; start < end; start += SCAN_CHUNK) {
		size_t left = end - start, size = left < SCAN_CHUNK ? left : SCAN_CHUNK;
		size_t read = left < SCAN_CHUNK + TAIL_BYTES ? left : SCAN_CHUNK + TAIL_BYTES;
		int err;

		if (elf_file__read(elf, start, buf, read))
			return -EFAULT;
		memset(buf + read, 0xcc, SCAN_CHUNK + TAIL_BYTES - read);
		err = s->bytes(s, buf, start, size);
		if (err)
			return err;
	}
	return 0;
}

static int scan_all(struct scan *s, const struct elf_file *elf)
{
	auto_free uint8_t *buf = malloc(SCAN_CHUNK + TAIL_BYTES);
	uint64_t start, end;
	int err = buf ? 0 : -ENOMEM;

	for (size_t i = 0; !err && elf_file__code(elf, i, &start, &end); i++)
		err = scan_range(s, elf, buf, start, end);
	return err;
}

static void widen(struct disasm_range *hull, uint64_t start, uint64_t end)
{
	hull->start = start < hull->start ? start : hull->start;
	hull->end = end > hull->end ? end : hull->end;
}

static bool is_in_hull(const struct scan *s, uint64_t addr)
{
	return addr - s->hull.start < s->hull.end - s->hull.start;
}

static int keep(struct scan *s, uint64_t addr)
{
	if (s->cnt == s->max)
		return -E2BIG;
	s->out[s->cnt++] = addr;
	return 0;
}

static int add_branch(struct branch_list *list, const struct disasm_branch *branch)
{
	int err = list->cnt < BRANCH_MAX ? GROW(list->items, list->size, list->cnt) : -E2BIG;

	if (err)
		return err;
	list->items[list->cnt++] = *branch;
	return 0;
}

/* Distance from the end of a direct jump or call to its target, by the bytes; @size is its length, 0 if
 * they are none. @b has at least 6 bytes. */
static inline int64_t branch_distance(const uint8_t *b, size_t *size)
{
	int32_t wide;

	*size = 0;
	if (b[0] == 0xe8 || b[0] == 0xe9) {
		*size = 5;
		memcpy(&wide, b + 1, 4);
		return wide;
	}
	if (b[0] == 0xeb || (b[0] & 0xf0) == 0x70) {
		*size = 2;
		return (int8_t)b[1];
	}
	if (b[0] == 0x0f && (b[1] & 0xf0) == 0x80) {
		*size = 6;
		memcpy(&wide, b + 2, 4);
		return wide;
	}
	return 0;
}

static bool is_in_range(const struct scan *s, uint64_t target)
{
	if (!is_in_hull(s, target))
		return false;
	for (size_t k = 0; k < s->range_cnt; k++)
		if (target >= s->ranges[k].start && target < s->ranges[k].end)
			return true;
	return false;
}

static int branch_at(struct scan *s, const uint8_t *code, uint64_t addr)
{
	size_t length;
	uint64_t target = (uint64_t)branch_distance(code, &length) + addr + length;

	if (!length || !is_in_range(s, target))
		return 0;
	return add_branch(&s->branches, &(struct disasm_branch){
						.addr = addr,
						.target = target,
						.call = code[0] == 0xe8,
						.cond = length == 6 || (code[0] & 0xf0) == 0x70,
					});
}

/*
 * Could a distance of four bytes, in a block or right behind it, lead into a range of @extent bytes? @from: where a jump or
 * call ends that begins with the block, counted from the start of the range.
 */
static bool leads_there(const uint8_t *code, uint32_t from, uint32_t extent)
{
	typedef uint32_t four __attribute__((vector_size(16)));
	four any = { 0 };

	for (uint32_t i = 0; i <= 4; i++) { /* the fifth for 0f 8x in the last byte */
		four distance;

		memcpy(&distance, code + 1 + i, sizeof(distance));
		any |= (four)(distance + (four){ 0, 4, 8, 12 } + (from + i) < extent);
	}
	return any[0] | any[1] | any[2] | any[3];
}

/* First at where the bytes could lead to, which nearly always is elsewhere, and only then at what they are. */
static int branches(struct scan *s, const uint8_t *code, uint64_t addr, size_t size)
{
	uint64_t extent = s->hull.end - s->hull.start;
	int err = 0;

	for (size_t i = 0; !err && i < size; i += BLOCK_BYTES) {
		uint64_t at = addr + i - s->hull.start;
		size_t end = size - i < BLOCK_BYTES ? size : i + BLOCK_BYTES;

		if (at + SHORT_MAX >= extent + 2 * SHORT_MAX && extent <= UINT32_MAX &&
		    !leads_there(code + i, (uint32_t)(at + 5), (uint32_t)extent))
			continue;
		for (size_t k = i; !err && k < end; k++)
			err = branch_at(s, code + k, addr + k);
	}
	return err;
}

int disasm__branches(const struct disasm *d, const struct disasm_range *ranges, size_t cnt,
		     struct disasm_branch **out, size_t *out_cnt)
{
	struct scan s = {
		.bytes = branches, .hull = { UINT64_MAX, 0 }, .ranges = ranges, .range_cnt = cnt
	};
	int err;

	for (size_t i = 0; i < cnt; i++)
		widen(&s.hull, ranges[i].start, ranges[i].end);
	err = scan_all(&s, disasm__elf(d));
	if (err) {
		free(s.branches.items);
		return err;
	}
	*out = s.branches.items;
	*out_cnt = s.branches.cnt;
	return 0;
}

/* cmp byte [reg + disp], 0; behind a prefix or not. */
static bool is_byte_test(const uint8_t *code, uint8_t disp)
{
	size_t at = 2 + ((code[1] & 7) == 4);

	return code[0] == BYTE_TEST && (code[1] & 0xf8) == 0x78 && code[at] == disp &&
	       !code[at + 1];
}

static int byte_tests(struct scan *s, const uint8_t *code, uint64_t addr, size_t size)
{
	const uint8_t *at = code, *end = code + size;
	int err = 0;

	for (; !err && (at = memchr(at, BYTE_TEST, (size_t)(end - at))); at++)
		if (is_byte_test(at, s->disp))
			err = keep(s, addr + (uint64_t)(at - code));
	return err;
}

int disasm__byte_tests(const struct disasm *d, uint8_t disp, uint64_t *out, size_t max, size_t *cnt)
{
	struct scan s = { .bytes = byte_tests, .disp = disp, .max = max };
	int err;

	s.out = out;
	err = scan_all(&s, disasm__elf(d));
	*cnt = s.cnt;
	return err;
}

static bool is_one_of(const struct scan *s, uint64_t value)
{
	if (!is_in_hull(s, value))
		return false;
	for (size_t i = 0; i < s->wanted_cnt; i++)
		if (s->wanted[i] == value)
			return true;
	return false;
}

/* The address itself; or, of a lea that is relative to the program counter, the distance to it. */
static int address_uses(struct scan *s, const uint8_t *code, uint64_t addr, size_t size)
{
	int err = 0;

	for (size_t i = 0; !err && i < size; i++) {
		int32_t value;

		memcpy(&value, code + i, 4);
		if (s->fixed && is_one_of(s, (uint64_t)(int64_t)value))
			err = keep(s, addr + i);
		if (err || code[i] != 0x8d || (code[i + 1] & 0xc7) != 0x05)
			continue;
		memcpy(&value, code + i + 2, 4);
		if (is_one_of(s, addr + i + 6 + (uint64_t)(int64_t)value))
			err = keep(s, addr + i);
	}
	return err;
}

int disasm__address_uses(const struct disasm *d, const uint64_t *wanted, size_t wanted_cnt,
			 uint64_t *out, size_t max, size_t *cnt)
{
	struct scan s = { .bytes = address_uses,
			  .hull = { UINT64_MAX, 0 },
			  .wanted = wanted,
			  .wanted_cnt = wanted_cnt,
			  .fixed = elf_file__is_fixed(disasm__elf(d)),
			  .max = max };
	int err;

	s.out = out;
	for (size_t i = 0; i < wanted_cnt; i++)
		widen(&s.hull, wanted[i], wanted[i] + 1);
	err = scan_all(&s, disasm__elf(d));
	*cnt = s.cnt;
	return err;
}
