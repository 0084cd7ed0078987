// SPDX-License-Identifier: Apache-2.0
/*
 * The sandboxed reader of interpreter files, over any bytes: ELF tables and the probe plan. And the vetting
 * of its answer, which may be any bytes as well: what is taken is in bounds.
 */
#include "base/err.h"
#include "cpython/interp_file.h"
#include "cpython/layouts.h"
#include "cpython/plan.h"
#include "cpython/version.h"
#include "elf/elf_file.h"
#include "fuzz.h"

static void read_file(int fd)
{
	struct elf_file *elf = NULL;
	struct probe_plan plan;
	struct err e = { 0 };
	char text[VERSION_TEXT_SIZE];
	char path[32];
	uint64_t offset;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (elf_file__open(path, &elf, &e)) {
		demand(memchr(e.what, '\0', sizeof(e.what)) != NULL);
		return;
	}
	plan_is_interpreter(elf);
	if (!plan_make(elf, "auto", &plan, &e)) {
		version_text(elf, &plan, text, sizeof(text));
		demand(plan.site_cnt && plan.site_cnt <= PLAN_SITES_MAX);
		for (uint32_t i = 0; i < plan.site_cnt; i++)
			demand(elf_file__is_code(elf, plan.sites[i].vaddr) &&
			       !elf_file__offset(elf, plan.sites[i].vaddr, &offset) &&
			       offset == plan.sites[i].offset);
	}
	elf_file__free(elf);
}

static void vet_answer(const uint8_t *data, size_t size, int fd)
{
	static struct interp_file file;

	memset(&file, 0, sizeof(file));
	memcpy(&file, data, size < sizeof(file) ? size : sizeof(file));
	if (interp_file__vet(&file, fd, "auto") || file.err)
		return;
	demand(file.plan.site_cnt && file.plan.site_cnt <= PLAN_SITES_MAX);
	demand(layout_find(file.plan.minor, file.plan.free_threaded) != NULL);
	for (uint32_t i = 0; i < file.plan.site_cnt; i++)
		demand(file.plan.sites[i].offset < size && file.code_len[i] <= INTERP_CODE_SIZE &&
		       strlen(file.plan.sites[i].name) < sizeof(file.plan.sites[i].name));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = input_file(data, size);

	read_file(fd);
	vet_answer(data, size, fd);
	close(fd);
	return 0;
}
