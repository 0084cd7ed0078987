// SPDX-License-Identifier: Apache-2.0
#include "cmd/list_probes.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "cpython/plan.h"

static const char *kind_name(enum probe_kind kind)
{
	switch (kind) {
	case PROBE_RESUME:
		return "resume";
	case PROBE_CLEAR:
		return "clear";
	case PROBE_RETURN:
		return "return";
	case PROBE_UNWIND:
		return "unwind";
	case PROBE_YIELD:
		return "yield";
	case PROBE_EVAL_ENTRY:
		return "eval-entry";
	case PROBE_EVAL_EXIT:
		return "eval-exit";
	case PROBE_EVAL_REFUSED:
		return "eval-refused";
	case PROBE_CODE_DEALLOC:
		return "code-dealloc";
	case PROBE_UNWINDING:
		return "unwinding";
	case PROBE_GEN_CLOSE:
		return "gen-close";
	case PROBE_GEN_CLOSED:
		return "gen-closed";
	case PROBE_USDT_ENTRY:
		return "usdt-entry";
	case PROBE_USDT_RETURN:
		return "usdt-return";
	}
	return "?";
}

static const char *reg_name(uint8_t reg)
{
	static const char *const names[] = {
		"rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp",
		"r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15"
	};

	return reg < sizeof(names) / sizeof(names[0]) ? names[reg] : "-";
}

static const char *cond_name(uint8_t cond)
{
	static const char *const names[] = { "o", "no", "b", "ae", "e", "ne", "be", "a",
					     "s", "ns", "p", "np", "l", "ge", "le", "g" };

	return cond & COND_X86 ? names[cond & 0x0f] : "";
}

static const char *value_name(enum probe_kind kind)
{
	switch (kind) {
	case PROBE_EVAL_ENTRY:
		return "throwflag";
	case PROBE_CLEAR:
	case PROBE_RETURN:
	case PROBE_UNWIND:
		return "thread-state";
	default:
		return "value";
	}
}

/* "rbp", "rax+72", "[rsp+8]" */
static void object_text(const struct probe_site *s, char *out, size_t size)
{
	char disp[16] = "";

	if (s->disp)
		snprintf(disp, sizeof(disp), "%+" PRId32, s->disp);
	switch (s->source) {
	case PROBE_IN_REG:
		snprintf(out, size, "%s%s", reg_name(s->reg), disp);
		break;
	case PROBE_IN_SLOT:
		snprintf(out, size, "[%s%s]", reg_name(s->reg), disp);
		break;
	case PROBE_TOP:
		snprintf(out, size, "tracked");
		break;
	case PROBE_THREAD_STATE:
		snprintf(out, size, "thread-state");
		break;
	}
}

/* What else matters at a site: the condition, the register with the value, the semaphore. */
static void remark_text(const struct probe_site *s, char *out, size_t size)
{
	char cond[24] = "", value[32] = "", semaphore[40] = "";

	if (s->cond & COND_X86)
		snprintf(cond, sizeof(cond), " if %s", cond_name(s->cond));
	if (s->value_reg != PREG_NONE)
		snprintf(value, sizeof(value), " %s=%s", value_name(s->kind),
			 reg_name(s->value_reg));
	if (s->semaphore)
		snprintf(semaphore, sizeof(semaphore), " semaphore=0x%" PRIx64, s->semaphore);
	snprintf(out, size, "%s%s%s%s", s->single_step ? "SINGLE-STEP" : "emulated", cond, value,
		 semaphore);
}

static void widen(size_t *width, const char *text)
{
	if (strlen(text) > *width)
		*width = strlen(text);
}

static void print_head(const struct probe_plan *p, const char *title, FILE *out)
{
	fprintf(out, "%s: CPython 3.%u", title, p->minor);
	if (p->version_hex)
		fprintf(out, ".%u", p->version_hex >> 8 & 0xff);
	fprintf(out, "%s%s%s, engine %s, dispatch table 0x%" PRIx64,
		p->free_threaded ? ", free-threaded" : "", p->debug ? ", debug build" : "",
		p->tail_call ? ", tail-calling interpreter" : "", p->engine, p->table);
	if (p->runtime)
		fprintf(out, ", _PyRuntime 0x%" PRIx64, p->runtime);
	if (p->tstate_current)
		fprintf(out, ", thread state at 0x%" PRIx64, p->tstate_current);
	fprintf(out, "\n");
}

int list_probes(const struct probe_plan *plan, const char *title, FILE *out)
{
	size_t name = strlen("SITE"), insn = strlen("INSTRUCTION"), object = strlen("OBJECT");
	char place[40], remark[128];

	for (uint32_t i = 0; i < plan->site_cnt; i++) {
		object_text(&plan->sites[i], place, sizeof(place));
		widen(&object, place);
		widen(&name, plan->sites[i].name);
		widen(&insn, plan->sites[i].insn);
	}
	print_head(plan, title, out);
	fprintf(out, "  %-12s %-10s %-12s %-*s %-*s %-*s %s\n", "ADDRESS", "OFFSET", "KIND",
		(int)name, "SITE", (int)insn, "INSTRUCTION", (int)object, "OBJECT", "HOW");
	for (uint32_t i = 0; i < plan->site_cnt; i++) {
		const struct probe_site *s = &plan->sites[i];

		object_text(s, place, sizeof(place));
		remark_text(s, remark, sizeof(remark));
		fprintf(out, "  0x%-10" PRIx64 " 0x%-8" PRIx64 " %-12s %-*s %-*s %-*s %s\n",
			s->vaddr, s->offset, kind_name(s->kind), (int)name, s->name, (int)insn,
			s->insn, (int)object, place, remark);
	}
	if (plan->notes[0])
		fprintf(out, "  %s\n", plan->notes);
	return ferror(out) ? -PYE_EOUTPUT : 0;
}
