// SPDX-License-Identifier: Apache-2.0
/*
 * The answer of a process that read a hostile file is hostile, too: every byte of it may be the file's
 * choice. After this, strings end and can be printed, numbers index nothing out of bounds, the layout is
 * one that the version can have, and sites lie in the file where their code was found.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "cpython/interp_file.h"
#include "cpython/layouts.h"

/* Ends somewhere; a control character becomes a question mark. UTF-8 is left to who prints it. */
static bool vet_text(char *text, size_t size)
{
	if (!memchr(text, '\0', size))
		return false;
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = '?';
	return true;
}

/* A sentence names files, which can have any name. */
static bool vet_sentence(struct err *e)
{
	char shown[sizeof(e->what)];

	if (!memchr(e->what, '\0', sizeof(e->what)) || !vet_text(e->hint, sizeof(e->hint)))
		return false;
	text_escape(shown, sizeof(shown), e->what, strlen(e->what));
	memcpy(e->what, shown, sizeof(shown));
	return true;
}

/* Another byte than 0 and 1 in a bool is undefined behaviour as soon as it is read. */
static bool vet_bool(const bool *value)
{
	uint8_t byte;

	memcpy(&byte, value, sizeof(byte));
	return byte <= 1;
}

static bool vet_reg(uint8_t reg)
{
	return reg <= PREG_R15 || reg == PREG_NONE;
}

static bool vet_site(struct probe_site *site, const struct interp_file *file, uint32_t index,
		     int fd, off_t size)
{
	uint8_t len = file->code_len[index], code[INTERP_CODE_SIZE];

	if (!vet_bool(&site->single_step) || !vet_text(site->name, sizeof(site->name)) ||
	    !vet_text(site->insn, sizeof(site->insn)))
		return false;
	if (site->kind < PROBE_RESUME || site->kind > PROBE_GEN_CLOSED ||
	    site->source > PROBE_THREAD_STATE || !vet_reg(site->reg) || !vet_reg(site->value_reg))
		return false;
	if (site->cond != COND_ALWAYS && (site->cond & 0xf0) != COND_X86)
		return false;
	if (!site->offset || site->offset >= (uint64_t)size || site->semaphore >= (uint64_t)size)
		return false;
	if (!len || len > INTERP_CODE_SIZE)
		return false;
	return pread(fd, code, len, (off_t)site->offset) == len &&
	       !memcmp(code, file->code[index], len);
}

/* Is it one that can be had where this one is asked for? */
static bool vet_engine(const char *asked, const char *got)
{
	if (!strcmp(asked, got))
		return true;
	return (!strcmp(asked, "auto") || !strcmp(asked, "sample")) &&
	       (!strcmp(got, "uprobe") || !strcmp(got, "usdt"));
}

static bool vet_plan(struct interp_file *file, int fd, const char *engine)
{
	struct probe_plan *plan = &file->plan;
	struct stat st;

	if (!vet_bool(&plan->free_threaded) || !vet_bool(&plan->debug) ||
	    !vet_bool(&plan->tail_call) || !vet_text(plan->engine, sizeof(plan->engine)) ||
	    !vet_text(plan->notes, sizeof(plan->notes)))
		return false;
	if (!vet_engine(engine, plan->engine))
		return false;
	if (!plan->site_cnt || plan->site_cnt > PLAN_SITES_MAX || fstat(fd, &st))
		return false;
	for (uint32_t i = 0; i < plan->site_cnt; i++)
		if (!vet_site(&plan->sites[i], file, i, fd, st.st_size))
			return false;
	return true;
}

static bool vet_err(int err)
{
	switch (-(int64_t)err) {
	case 0:
	case PYE_ENOTPYTHON:
	case PYE_EVERSION:
	case PYE_EPLAN:
	case PYE_EFORMAT:
		return true;
	default:
		return err < 0 && err > -4096;
	}
}

int interp_file__vet(struct interp_file *file, int fd, const char *engine)
{
	if (!vet_err(file->err) || !vet_sentence(&file->e) ||
	    !vet_text(file->version, sizeof(file->version)))
		return -EBADMSG;
	if (file->err)
		return 0;
	if (!vet_bool(&file->is_executable) || !vet_bool(&file->has_jit) ||
	    !vet_plan(file, fd, engine) ||
	    !layout_vet(file->plan.minor, file->plan.free_threaded, file->plan.debug,
			&file->layout))
		return -EBADMSG;
	return 0;
}
