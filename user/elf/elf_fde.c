// SPDX-License-Identifier: Apache-2.0
/*
 * Where functions begin, also in stripped files: the search table of .eh_frame_hdr, which lists the
 * first address of every unwind description (a function, or the part of one that the compiler moved
 * away) as 32-bit distances from the section.
 */
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/order.h"
#include "elf/elf_private.h"

#define EH_FRAME_PTR_SDATA4 0x1b /* DW_EH_PE_pcrel | DW_EH_PE_sdata4 */
#define EH_COUNT_UDATA4	    0x03 /* DW_EH_PE_udata4 */
#define EH_TABLE_SDATA4	    0x3b /* DW_EH_PE_datarel | DW_EH_PE_sdata4 */

struct eh_head {
	uint8_t version, frame_encoding, count_encoding, table_encoding;
	int32_t frame;
	uint32_t count;
};

struct eh_entry {
	int32_t start, description;
};

int elf_file__functions(const struct elf_file *elf, uint64_t **out, size_t *cnt)
{
	const struct elf_section *s = elf_file__section_by_name(elf, ".eh_frame_hdr");
	auto_free uint64_t *starts = NULL;
	auto_free char *raw = NULL;
	const struct eh_entry *entry;
	struct eh_head head;
	int err;

	if (!s || s->type == SHT_NOBITS || s->size < sizeof(head))
		return -ENOENT;
	err = elf_load_bytes(elf, s->offset, s->size, &raw);
	if (err)
		return err == -ENOMEM ? err : -ENOENT;
	memcpy(&head, raw, sizeof(head));
	if (head.version != 1 || head.frame_encoding != EH_FRAME_PTR_SDATA4 ||
	    head.count_encoding != EH_COUNT_UDATA4 || head.table_encoding != EH_TABLE_SDATA4 ||
	    head.count > (s->size - sizeof(head)) / sizeof(*entry))
		return -ENOENT;
	starts = calloc((size_t)head.count + 1, sizeof(*starts));
	if (!starts)
		return -ENOMEM;
	entry = (const struct eh_entry *)(raw + sizeof(head));
	for (uint32_t i = 0; i < head.count; i++)
		starts[i] = s->vaddr + (uint64_t)(int64_t)entry[i].start;
	qsort(starts, head.count, sizeof(*starts), order_u64);
	*cnt = head.count;
	*out = take_ptr(starts);
	return 0;
}
