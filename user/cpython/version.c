// SPDX-License-Identifier: Apache-2.0
#include "cpython/version.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cpython/layouts.h"
#include "cpython/plan.h"
#include "elf/elf_file.h"

#define RODATA_MAX (64u << 20)

int version_parse_debug(const uint8_t *data, size_t len, struct version_debug *out)
{
	uint64_t words[7];

	if (len < sizeof(words))
		return -EINVAL;
	memcpy(words, data, sizeof(words));
	if (memcmp(data, "xdebugpy", 8) != 0 || words[1] >> 24 != 3 || words[2] > 1)
		return -EINVAL;
	*out = (struct version_debug){
		.hex = (uint32_t)words[1],
		.minor = words[1] >> 16 & 0xff,
		.free_threaded = words[2] != 0,
		.is_size = words[6],
	};
	return 0;
}

static int format_hex(uint32_t hex, char *out, size_t size)
{
	static const char *const levels[16] = { [0xa] = "a", [0xb] = "b", [0xc] = "rc" };
	unsigned int micro = hex >> 8 & 0xff;
	const char *level = levels[hex >> 4 & 0xf];

	if (level)
		snprintf(out, size, "%u.%u.%u%s%u", hex >> 24, hex >> 16 & 0xff, micro, level,
			 hex & 0xf);
	else
		snprintf(out, size, "%u.%u.%u", hex >> 24, hex >> 16 & 0xff, micro);
	return (int)micro;
}

/* Length of "<digits>" or "<digits>{a,b,rc}<digits>", with an optional "+"; 0 if @s is not that. */
static size_t micro_length(const char *s)
{
	size_t n = strspn(s, "0123456789"), tail;

	if (!n || n > 2)
		return 0;
	tail = strspn(s + n, "abrc");
	if (tail)
		tail += strspn(s + n + tail, "0123456789");
	n += tail;
	n += s[n] == '+';
	return s[n] ? 0 : n;
}

/* The linker may have merged the string with the end of a longer one ("/build/Python-3.9.18"), so such
 * ends count where it does not stand alone, if they all agree. */
int version_find_text(const char *data, size_t len, unsigned int minor, char *out, size_t size)
{
	bool exact = false, conflict = false;
	const char *at = data, *end = data + len;
	int found = -ENOENT;
	char head[8];
	size_t head_len = (size_t)snprintf(head, sizeof(head), "3.%u.", minor), n;

	while ((at = memmem(at, (size_t)(end - at), head, head_len))) {
		const char *s = at;
		const char *nul = memchr(s, '\0', (size_t)(end - s));
		bool alone = s == data || !s[-1];

		at += head_len;
		if (!nul || (!alone && (exact || isdigit((unsigned char)s[-1]) || s[-1] == '.')))
			continue;
		n = micro_length(at);
		if (!n || head_len + n >= size)
			continue;
		if (found >= 0 && alone == exact) {
			conflict |= strcmp(out, s) != 0;
			continue;
		}
		exact = alone;
		conflict = false;
		memcpy(out, s, head_len + n + 1);
		found = (int)strtol(at, NULL, 10);
	}
	return conflict ? -ENOENT : found;
}

/* Owned by the caller; NULL when there is none that can be read. */
static char *read_section(const struct elf_file *elf, const char *name, size_t *len)
{
	const struct elf_section *rodata = elf_file__section_by_name(elf, name);
	auto_free char *data = NULL;

	if (!rodata || !rodata->size || rodata->size > RODATA_MAX)
		return NULL;
	data = malloc(rodata->size);
	if (!data || elf_file__read(elf, rodata->vaddr, data, rodata->size))
		return NULL;
	*len = rodata->size;
	return take_ptr(data);
}

int version_text(const struct elf_file *elf, const struct probe_plan *plan, char *out, size_t size)
{
	auto_free char *data = NULL;
	struct elf_symbol sym;
	size_t len = 0;
	uint64_t hex;
	int found;

	if (plan->version_hex)
		return format_hex(plan->version_hex, out, size);
	/* exported from 3.11 on */
	if (!elf_file__symbol(elf, "Py_Version", &sym) &&
	    !elf_file__read(elf, sym.vaddr, &hex, sizeof(hex)) &&
	    hex >> 16 == (0x300u | plan->minor))
		return format_hex((uint32_t)hex, out, size);
	data = read_section(elf, ".rodata", &len);
	found = data ? version_find_text(data, len, plan->minor, out, size) : -ENOENT;
	if (found < 0)
		snprintf(out, size, "3.%u", plan->minor);
	return found;
}

bool version_has_jit(const struct elf_file *elf, const struct probe_plan *plan)
{
	/* BOLT writes a new one, and keeps what constants it has not moved by this name */
	static const char *const sections[] = { ".rodata", ".bolt.org.rodata" };
	static const char name[] = "\0PYTHON_JIT";
	const struct layout *l = layout_find(plan->minor, plan->free_threaded);
	bool found = false;

	if (!l || !l->jit[0].is_size)
		return false;
	for (size_t i = 0; !found && i < sizeof(sections) / sizeof(*sections); i++) {
		size_t len = 0;
		auto_free char *data = read_section(elf, sections[i], &len);

		found = data && memmem(data, len, name, sizeof(name));
	}
	return found;
}
