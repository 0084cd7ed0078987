// SPDX-License-Identifier: Apache-2.0
/*
 * From an ELF file to a probe plan: the version by its dispatch table, the build by what the file says
 * of itself, then the sites of the engine asked for.
 */
#include "cpython/plan.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cpython/inline_plan.h"
#include "cpython/planner.h"
#include "elf/elf_file.h"

#define COOKIE		     "xdebugpy"
#define COOKIE_VERSION	     8
#define COOKIE_FREE_THREADED 16
#define WITNESS_CNT	     8

static const char *const loop_symbol = "_PyEval_EvalFrameDefault";

static uint64_t find_runtime(const struct elf_file *elf)
{
	const struct elf_section *section;
	struct elf_symbol symbol;

	if (!elf_file__symbol(elf, "_PyRuntime", &symbol))
		return symbol.vaddr;
	section = elf_file__section_by_name(elf, ".PyRuntime");
	return section ? section->vaddr : 0;
}

/* What _Py_DebugOffsets at the start of _PyRuntime say of the build. */
static int read_build(struct planner *p)
{
	struct {
		char cookie[8];
		uint64_t version, free_threaded;
	} head;

	if (!p->table.version->debug_offsets)
		return 0;
	if (elf_file__read(p->elf, p->plan->runtime, &head, sizeof(head)) ||
	    memcmp(head.cookie, COOKIE, sizeof(head.cookie)) != 0)
		return err_set(
			p->e, -PYE_EPLAN,
			"3.%u by its dispatch table, but _PyRuntime (0x%lx) does not begin with "
			"the cookie of _Py_DebugOffsets",
			p->plan->minor, p->plan->runtime);
	if ((head.version >> 16 & 0xffff) != (0x300u | p->plan->minor))
		return err_set(
			p->e, -PYE_EPLAN,
			"the dispatch table (0x%lx) is that of 3.%u, _PyRuntime says version 0x%lx",
			p->table.vaddr, p->plan->minor, head.version);
	p->plan->version_hex = (uint32_t)head.version;
	p->plan->free_threaded = head.free_threaded != 0;
	return 0;
}

static bool is_debug(const struct elf_file *elf)
{
	static const char *const names[] = { "_Py_RefTotal", "_Py_GetRefTotal",
					     "_Py_NegativeRefcount", "_Py_GetGlobalRefTotal" };
	struct elf_symbol symbol;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!elf_file__symbol(elf, names[i], &symbol))
			return true;
	return false;
}

/* The handlers are functions of their own, not labels within a few. */
static bool is_tail_call(const struct planner *p)
{
	size_t functions = 0;

	for (size_t i = 0; i < OPTABLE_CNT; i++) {
		uint64_t start, end;

		if (!code__function(&p->code, p->table.targets[i], &start, &end))
			functions += start == p->table.targets[i];
	}
	return functions > OPTABLE_CNT / 2;
}

static int describe(struct planner *p)
{
	const struct python_version *v = p->table.version;
	struct probe_plan *plan = p->plan;
	struct elf_symbol symbol;

	plan->minor = v->minor;
	plan->table = p->table.vaddr;
	plan->runtime = find_runtime(p->elf);
	plan->debug = is_debug(p->elf);
	plan->tail_call = is_tail_call(p);
	if (v->tstate_current && plan->runtime)
		plan->tstate_current = plan->runtime + v->tstate_current;
	if (v->tstate_symbol && !elf_file__symbol(p->elf, v->tstate_symbol, &symbol))
		plan->tstate_current = symbol.vaddr;
	return read_build(p);
}

static int plan_uprobe(struct planner *p)
{
	int err;

	switch (p->table.version->exit) {
	case EXIT_EVAL:
		err = plan_eval(p);
		break;
	case EXIT_HANDLERS:
		err = plan_handlers(p);
		if (!err)
			err = plan_unwind(p);
		break;
	default:
		err = plan_handlers(p);
		if (!err)
			err = plan_clear(p);
		if (!err && p->table.version->close_skips)
			err = plan_gen_close(p);
		break;
	}
	return err ? err : plan_code_dealloc(p);
}

static void set_engine(struct planner *p, const char *engine)
{
	snprintf(p->plan->engine, sizeof(p->plan->engine), "%s", engine);
}

static bool has_single_step(const struct probe_plan *plan)
{
	for (uint32_t i = 0; i < plan->site_cnt; i++)
		if (plan->sites[i].single_step && plan->sites[i].kind != PROBE_CODE_DEALLOC)
			return true;
	return false;
}

static int make_usdt(struct planner *p)
{
	int err = plan_usdt(p);

	if (err)
		return err == -ENOENT ? -PYE_EPLAN : err;
	set_engine(p, "usdt");
	return plan_code_dealloc(p);
}

/* Both trap twice per call, but the interpreter makes UTF-8 names and a line number for each USDT event:
 * USDT is taken only where the other engine has to single-step, or has no plan. */
static int make_auto(struct planner *p)
{
	auto_free struct probe_plan *before = malloc(sizeof(*before));
	struct probe_plan *plan = p->plan;
	struct err usdt_err;
	int err, usdt;

	if (!before)
		return -ENOMEM;
	*before = *plan;
	set_engine(p, "uprobe");
	err = plan_uprobe(p);
	if (!p->table.version->usdt || err == -ENOMEM || (!err && !has_single_step(plan)))
		return err;
	usdt = make_usdt(&(struct planner){
		.elf = p->elf, .code = p->code, .table = p->table, .plan = before, .e = &usdt_err });
	if (usdt)
		return err;
	*plan = *before;
	return 0;
}

/* Is some place of the plan in the function around an address? */
static bool is_witnessed(const struct planner *p, uint64_t addr)
{
	uint64_t start, end;

	if (code__function(&p->code, addr, &start, &end))
		return false;
	for (uint32_t i = 0; i < p->plan->site_cnt; i++)
		if (p->plan->sites[i].vaddr >= start && p->plan->sites[i].vaddr < end)
			return true;
	return false;
}

/* Some places of the interpreter loop, any: by them it is found in a process, and known to be the file's. First of each function
 * that the compiler has made of it. */
static int add_witnesses(struct planner *p)
{
	uint64_t last = p->table.unknown;
	int err = -PYE_EPLAN;

	for (size_t n = 0; n < 2UL * OPTABLE_CNT && p->plan->site_cnt < WITNESS_CNT; n++) {
		size_t i = n % OPTABLE_CNT;
		struct probe_site site = { .kind = PROBE_RESUME,
					   .source = PROBE_IN_REG,
					   .reg = PREG_NONE,
					   .value_reg = PREG_NONE,
					   .vaddr = p->table.targets[i],
					   .name = "opcode handler" };

		if (site.vaddr == p->table.unknown || site.vaddr == last ||
		    (n < OPTABLE_CNT && is_witnessed(p, site.vaddr)))
			continue;
		last = site.vaddr;
		err = planner__add(p, &site);
	}
	return p->plan->site_cnt ? 0 : err;
}

/* Samples need no probe but the one that tells when code objects die. Where calls cannot be traced it is said why not. */
static int make_sample(struct planner *p)
{
	struct probe_plan *plan = p->plan;
	struct err why = { 0 }, *e = p->e;
	int err;

	p->e = &why;
	err = make_auto(p);
	p->e = e;
	if (err && e)
		*e = why;
	if (err != -PYE_EPLAN)
		return err;
	plan->site_cnt = 0;
	plan->notes[0] = '\0';
	set_engine(p, "sample");
	planner__note(p, "its calls cannot be traced: %s", why.what);
	err = add_witnesses(p);
	return err ? err : plan_code_dealloc(p);
}

static int make(struct planner *p, const char *engine)
{
	int err = code__add_starts(&p->code, p->table.targets, OPTABLE_CNT);

	if (!err)
		err = describe(p);
	if (err)
		return err;
	if (!strcmp(engine, "usdt"))
		return make_usdt(p);
	if (!strcmp(engine, "auto"))
		return make_auto(p);
	if (!strcmp(engine, "sample"))
		return make_sample(p);
	set_engine(p, "uprobe");
	return plan_uprobe(p);
}

/* Why there is no plan for a file without a table. */
static int explain(const struct elf_file *elf, struct err *e)
{
	struct elf_symbol symbol;
	struct disasm *disasm;
	bool loop = !elf_file__symbol(elf, loop_symbol, &symbol);
	uint64_t runtime = find_runtime(elf);
	int err;

	if (!loop && !runtime)
		return err_set(e, -PYE_ENOTPYTHON, "the file holds no CPython interpreter loop");
	err = disasm__new(elf, &disasm, e);
	if (err)
		return err;
	disasm__free(disasm);
	return err_set(
		e, -PYE_EVERSION,
		"the file has %s, but no dispatch table of CPython %s: either another version, "
		"or built without computed gotos",
		loop ? loop_symbol : "_PyRuntime", python_version_names());
}

/* What a refusal says to a user. */
static int refusal(const struct planner *p, int err)
{
	char why[sizeof(p->e->what)];

	if (err == -EFAULT || err == -E2BIG || err == -EILSEQ)
		return err_set(p->e, -PYE_EPLAN, "3.%u: the code in the file cannot be read (%s)",
			       p->plan->minor, err_str(err));
	if (err != -PYE_EPLAN || p->code.function_cnt || !p->e)
		return err;
	snprintf(why, sizeof(why), "%s", p->e->what);
	return err_set(
		p->e, err,
		"the file has no .eh_frame_hdr that says where its functions begin (the linker's "
		"--eh-frame-hdr makes it): %s",
		why);
}

int plan_make(const struct elf_file *elf, const char *engine, struct probe_plan *out, struct err *e)
{
	auto_free struct probe_plan *plan = calloc(1, sizeof(*plan));
	struct planner p = { .elf = elf, .plan = plan, .e = e };
	int err;

	if (!plan)
		return -ENOMEM;
	err = optable__find(elf, &p.table, e);
	if (err)
		return err == -ENOENT ? explain(elf, e) : err;
	err = code__init(&p.code, elf, e);
	if (!err)
		err = make(&p, engine);
	err = refusal(&p, err);
	plan_endings_done(&p.endings);
	code__done(&p.code);
	if (err)
		return err;
	*out = *plan;
	return 0;
}

int plan_make_inline(const struct elf_file *elf, struct inline_plan *out, struct err *e)
{
	auto_free struct probe_plan *plan = calloc(1, sizeof(*plan));
	auto_free struct inline_plan *made = calloc(1, sizeof(*made));
	struct planner p = { .elf = elf, .plan = plan, .e = e };
	int err;

	if (!plan || !made)
		return -ENOMEM;
	err = optable__find(elf, &p.table, e);
	if (err)
		return err == -ENOENT ? explain(elf, e) : err;
	err = code__init(&p.code, elf, e);
	/* what is proven for the probes is needed here, too */
	if (!err)
		err = make(&p, "uprobe");
	if (!err)
		err = plan_inline(&p, made);
	err = refusal(&p, err);
	plan_endings_done(&p.endings);
	code__done(&p.code);
	if (!err)
		*out = *made;
	return err;
}

bool plan_is_interpreter(const struct elf_file *elf)
{
	auto_free struct optable *table = malloc(sizeof(*table));
	struct elf_symbol symbol;

	if (!elf_file__symbol(elf, loop_symbol, &symbol) || find_runtime(elf))
		return true;
	return table && optable__find(elf, table, NULL) != -ENOENT;
}
