// SPDX-License-Identifier: Apache-2.0
/*
 * Notes: the GNU build-id and SystemTap's probe descriptions. A note is three words (size of the name,
 * size of the description, type), the name and the description, each padded to 4 bytes.
 */
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "elf/elf_private.h"

#define NOTE_STAPSDT 3
#define NOTES_MAX    65536

struct note {
	uint32_t type;
	const char *name, *desc;
	size_t name_size, desc_size;
};

static uint64_t padded(uint32_t size)
{
	return ((uint64_t)size + 3) & ~(uint64_t)3;
}

/* The note at @at; returns where the next one begins, 0 if there is none (any more). */
static size_t parse_note(const char *data, size_t size, size_t at, struct note *out)
{
	Elf64_Nhdr head;
	uint64_t room;

	if (at > size || size - at < sizeof(head))
		return 0;
	memcpy(&head, data + at, sizeof(head));
	at += sizeof(head);
	room = size - at;
	if (padded(head.n_namesz) > room || head.n_descsz > room - padded(head.n_namesz))
		return 0;
	out->type = head.n_type;
	out->name = data + at;
	out->name_size = head.n_namesz;
	out->desc = data + at + padded(head.n_namesz);
	out->desc_size = head.n_descsz;
	return at + (size_t)padded(head.n_namesz) + (size_t)padded(head.n_descsz);
}

static bool is_named(const struct note *n, const char *name)
{
	return n->name_size == strlen(name) + 1 && !memcmp(n->name, name, n->name_size);
}

static int load_build_id(struct elf_file *elf, uint64_t offset, uint64_t size)
{
	auto_free char *data = NULL;
	struct note n;
	size_t at = 0;
	int err = elf_load_bytes(elf, offset, size, &data);

	if (err)
		return err == -ENOMEM ? err : 0;
	while (!elf->build_id_size && (at = parse_note(data, (size_t)size, at, &n))) {
		if (n.type != NT_GNU_BUILD_ID || !is_named(&n, "GNU") || !n.desc_size ||
		    n.desc_size > sizeof(elf->build_id))
			continue;
		memcpy(elf->build_id, n.desc, n.desc_size);
		elf->build_id_size = n.desc_size;
	}
	return 0;
}

/* The string at @at of a description, NULL if it does not end there; @at moves behind it. */
static const char *take_string(const struct note *n, size_t *at)
{
	const char *s = n->desc + *at;
	const char *end = *at < n->desc_size ? memchr(s, '\0', n->desc_size - *at) : NULL;

	if (!end)
		return NULL;
	*at += (size_t)(end - s) + 1;
	return s;
}

/* Three addresses (site, .stapsdt.base as linked, semaphore), then provider, name and arguments. */
static bool parse_usdt(const struct note *n, uint64_t base, struct elf_usdt *out)
{
	size_t at = 24;
	uint64_t word[3], shift;

	if (n->type != NOTE_STAPSDT || !is_named(n, "stapsdt") || n->desc_size < at)
		return false;
	memcpy(word, n->desc, sizeof(word));
	out->provider = take_string(n, &at);
	out->name = out->provider ? take_string(n, &at) : NULL;
	out->args = out->name ? take_string(n, &at) : NULL;
	if (!out->args)
		return false;
	shift = base ? base - word[1] : 0;
	out->vaddr = word[0] + shift;
	out->semaphore = word[2] ? word[2] + shift : 0;
	return true;
}

static int load_usdt(struct elf_file *elf)
{
	const struct elf_section *s = elf_file__section_by_name(elf, ".note.stapsdt");
	const struct elf_section *base = elf_file__section_by_name(elf, ".stapsdt.base");
	size_t at = 0, cnt = 0;
	struct note n;
	int err;

	if (!s)
		return 0;
	err = elf_load_bytes(elf, s->offset, s->size, &elf->usdt_data);
	if (err)
		return err == -ENOMEM ? err : 0;
	while (cnt < NOTES_MAX && (at = parse_note(elf->usdt_data, (size_t)s->size, at, &n)))
		cnt++;
	elf->usdt = calloc(cnt ? cnt : 1, sizeof(*elf->usdt));
	if (!elf->usdt)
		return -ENOMEM;
	at = 0;
	while (cnt-- && (at = parse_note(elf->usdt_data, (size_t)s->size, at, &n)))
		if (parse_usdt(&n, base ? base->vaddr : 0, &elf->usdt[elf->usdt_cnt]))
			elf->usdt_cnt++;
	return 0;
}

int elf_notes__load(struct elf_file *elf, const Elf64_Phdr *segments, size_t cnt)
{
	int err;

	for (size_t i = 0; i < cnt && !elf->build_id_size; i++) {
		if (segments[i].p_type != PT_NOTE)
			continue;
		err = load_build_id(elf, segments[i].p_offset, segments[i].p_filesz);
		if (err)
			return err;
	}
	return load_usdt(elf);
}

const struct elf_usdt *elf_file__usdt(const struct elf_file *elf, size_t index)
{
	return index < elf->usdt_cnt ? &elf->usdt[index] : NULL;
}

size_t elf_file__build_id(const struct elf_file *elf, uint8_t out[64])
{
	memcpy(out, elf->build_id, elf->build_id_size);
	return elf->build_id_size;
}
