// SPDX-License-Identifier: Apache-2.0
/*
 * The words, calls and instructions that the inline engine redirects. Entries and yields are table words; from
 * 3.12 on every frame that ends goes through one function or through a copy of it, so its calls are taken, and the
 * comparisons in the copies (plan_ends.c): they tell return from unwind and come after whatever a monitoring tool
 * is told. 3.11 ends frames in the return handlers and in one place that unwinds. Up to 3.10 every frame is a call
 * of one function (plan_inline_eval.c).
 */
#include "cpython/inline_plan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/sandbox.h"
#include "base/text.h"
#include "cpython/planner.h"
#include "elf/elf_file.h"

#define CALL_SIZE	 5
#define PAGE_BYTES	 4096
#define CLOSED_NEAR	 4 /* instructions */
#define GETTER_SIZE	 4 /* instructions */
#define EVAL_GETTER_SIZE 8
#define IS_LEAST	 64
#define IS_MAX		 (1 << 20) /* bytes of a PyInterpreterState */
#define TLS_MAX		 (1 << 20)
#define LOOP_MAX	 (1u << 24) /* bytes of a function */
#define LAST_FREE	 13 /* 3.<this>: the last version of which a free-threaded build was tried */

static int add_word(struct planner *p, struct inline_plan *out, uint64_t at, uint64_t target,
		    enum inline_kind kind)
{
	if (out->word_cnt == INLINE_WORDS_MAX || at % 8)
		return err_set(p->e, -PYE_EPLAN,
			       "3.%u: the word at 0x%lx cannot be replaced in one piece",
			       p->plan->minor, at);
	out->words[out->word_cnt++] =
		(struct inline_word){ .at = at, .target = target, .kind = (uint8_t)kind };
	return 0;
}

static int add_call(struct planner *p, struct inline_plan *out, uint64_t at, uint64_t target,
		    enum inline_kind kind)
{
	struct insn insn;

	if (!code__is_start(&p->code, at) || code__insn(&p->code, at, &insn) ||
	    insn.size != CALL_SIZE || (insn.bytes[0] != 0xe8 && insn.bytes[0] != 0xe9))
		return err_set(p->e, -PYE_EPLAN,
			       "3.%u: what leads to 0x%lx at 0x%lx is no plain call: it cannot be "
			       "redirected",
			       p->plan->minor, target, at);
	/* written in two pieces, half of it could stay when pyebpf is killed between them */
	if ((at + 1) % PAGE_BYTES > PAGE_BYTES - 4)
		return err_set(p->e, -PYE_EPLAN,
			       "3.%u: the call at 0x%lx lies across two pages: it cannot be "
			       "redirected in one piece",
			       p->plan->minor, at);
	if (out->call_cnt == INLINE_CALLS_MAX)
		return err_set(p->e, -PYE_EPLAN, "3.%u: more calls than a plan can hold",
			       p->plan->minor);
	out->calls[out->call_cnt++] =
		(struct inline_call){ .at = at, .target = insn.target, .kind = (uint8_t)kind };
	return 0;
}

static uint64_t resume_at(const struct planner *p)
{
	return p->table.targets[p->table.version->handlers[0].number];
}

/* RESUME stores the address of its own instruction into the frame: what it stores is it. @f: at its beginning */
static bool stored_instr(const struct planner *p, struct flow *f, struct flow_value *out)
{
	struct flow_value frame = flow__at(f, &p->home);
	struct insn store;

	if (!plan_instr_store(p, resume_at(p), f, &store) ||
	    !flow__is_same(f->regs[store.dst], frame))
		return false;
	*out = f->regs[store.src];
	return true;
}

/* What a word of the stack held at the beginning of RESUME (gcc 12 at -O3 has it there in executables), @found by going through it. */
static bool find_instr_slot(struct planner *p, const struct flow *through, struct flow_value found,
			    struct inline_plan *out)
{
	for (size_t i = 0; i < through->slot_cnt; i++) {
		const struct flow_slot *slot = &through->slots[i];
		struct flow_place place = { PROBE_IN_SLOT, (uint8_t)slot->at.root,
					    (int32_t)slot->at.disp };
		struct flow_value held, stored;
		struct flow f;

		if (slot->value.root != found.root ||
		    (slot->at.root != PREG_RSP && slot->at.root != PREG_RBP) ||
		    slot->at.disp != place.disp)
			continue;
		flow__init(&f);
		held = flow__at(&f, &place);
		if (!stored_instr(p, &f, &stored) || stored.root != held.root)
			continue;
		out->instr_in_slot = true;
		out->instr_reg = place.reg;
		out->instr_slot = place.disp;
		out->instr_disp = (int32_t)(stored.disp - held.disp);
		return true;
	}
	return false;
}

static int find_instr(struct planner *p, struct inline_plan *out)
{
	struct flow_value v;
	struct flow f;

	flow__init(&f);
	if (stored_instr(p, &f, &v)) {
		if (v.root >= MACHINE_REG_CNT && find_instr_slot(p, &f, v, out))
			return 0;
		if (v.root < MACHINE_REG_CNT && v.root != PREG_RSP) {
			out->instr_reg = (uint8_t)v.root;
			out->instr_disp = (int32_t)v.disp;
			return 0;
		}
	}
	return err_set(p->e, -PYE_EPLAN,
		       "3.%u: where the handler of %s (0x%lx) has its instruction cannot be told",
		       p->plan->minor, p->table.version->handlers[0].name, resume_at(p));
}

static int add_handlers(struct planner *p, struct inline_plan *out)
{
	const struct python_version *v = p->table.version;
	int err = 0;

	if (p->past_table)
		return err_set(p->e, -PYE_EPLAN,
			       "3.%u: a handler is jumped to from 0x%lx, past the dispatch table: "
			       "its events would be missed",
			       v->minor, p->past_table);
	for (const struct opcode_handler *op = v->handlers; !err && op->name; op++) {
		uint64_t at = p->table.vaddr + 8UL * op->number;

		if (op->kind == PROBE_RESUME)
			err = add_word(p, out, at, p->table.targets[op->number], INLINE_ENTRY);
		else if (op->kind == PROBE_YIELD)
			err = add_word(p, out, at, p->table.targets[op->number], INLINE_YIELD);
		else if (op->kind == PROBE_RETURN && v->exit == EXIT_HANDLERS)
			err = add_word(p, out, at, p->table.targets[op->number], INLINE_RETURN);
	}
	for (size_t i = 0; !err && i < sizeof(v->caught) && v->caught[i]; i++)
		err = add_word(p, out, p->table.vaddr + 8UL * v->caught[i],
			       p->table.targets[v->caught[i]], INLINE_CAUGHT);
	return err;
}

/* Up to 3.10 a frame's first instruction, and those behind an interruption, go through a switch instead. */
static void add_table(struct planner *p, struct inline_plan *out)
{
	if (p->table.vaddr % 8)
		return;
	out->table = p->table.vaddr;
	for (size_t i = 0; i < OPTABLE_CNT; i++)
		if (p->table.targets[i] != p->table.unknown)
			out->handlers[i] = p->table.targets[i];
}

static int add_clears(struct planner *p, struct inline_plan *out)
{
	const struct endings *e = &p->endings;
	auto_free struct clear_call *calls = NULL;
	size_t cnt = 0;
	int err = plan_clear_calls(p, e, &calls, &cnt);

	for (size_t i = 0; !err && i < e->end_cnt; i++) {
		const struct flow_place frame = { .source = PROBE_IN_REG,
						  .reg = e->ends[i].frame_reg };

		err = plan_detour_draft(p, out, e->ends[i].at, 0,
					e->ends[i].unwinding ? INLINE_UNWIND : INLINE_RETURN,
					&frame);
	}

	for (size_t i = 0; !err && i < cnt; i++)
		err = add_call(p, out, calls[i].at, calls[i].target,
			       calls[i].unwinding ? INLINE_UNWIND : INLINE_RETURN);
	return err;
}

static bool is_landing(const struct insn *insn)
{
	static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };

	return insn->size == sizeof(endbr64) && !memcmp(insn->bytes, endbr64, sizeof(endbr64));
}

/* A generator that something is thrown into runs on without a RESUME, and may see no handler; what it then drops may run
 * before it ends. */
static int add_throw(struct planner *p, struct inline_plan *out)
{
	const struct flow_place frame = { .source = PROBE_IN_REG, .reg = machine_args[1] };
	struct elf_symbol symbol;
	struct insn insn;

	if (elf_file__symbol(p->elf, "_PyEval_EvalFrameDefault", &symbol) ||
	    code__insn(&p->code, symbol.vaddr, &insn))
		return err_set(p->e, -PYE_EPLAN, "3.%u: without a symbol _PyEval_EvalFrameDefault",
			       p->plan->minor);
	/* not the landing pad of indirect calls */
	return plan_detour_draft(p, out, symbol.vaddr + (is_landing(&insn) ? insn.size : 0), 0,
				 INLINE_THROW, &frame);
}

/* 3.11: the comparison with which the unwinding of a frame ends. */
static int add_unwind(struct planner *p, struct inline_plan *out)
{
	struct flow_place frame = { .source = PROBE_IN_REG };
	struct unwind_place place;
	int err = plan_unwind_place(p, &place);

	if (err)
		return err;
	frame.reg = place.frame_reg;
	return plan_detour_draft(p, out, place.compare, 0, INLINE_UNWIND, &frame);
}

static bool has_detour(const struct inline_plan *plan, uint64_t at)
{
	for (uint32_t i = 0; i < plan->detour_cnt; i++)
		if (plan->detours[i].at == at)
			return true;
	return false;
}

static bool moves_stack(const struct insn *insn)
{
	return insn->op == INSN_PUSH || insn->op == INSN_POP || insn->writes & 1u << PREG_RSP;
}

/* Where such a call comes back to, or soon after it: what several have in common may serve. The stack pointer is that of the
 * call. */
static int add_closed(struct planner *p, struct inline_plan *out, uint64_t at)
{
	const struct flow_place sp = { .source = PROBE_IN_REG, .reg = PREG_RSP };
	struct insn insn;
	int err = 0;

	for (int i = 0; i < CLOSED_NEAR; i++) {
		if (has_detour(out, at))
			return 0;
		err = plan_detour(p, out, at, 0, INLINE_CLOSED, &sp);
		if (err != -PYE_EPLAN || code__insn(&p->code, at, &insn) || moves_stack(&insn))
			return err;
		if (insn.flow != FLOW_NEXT && (insn.flow != FLOW_JUMP || !insn.target))
			return err;
		at = insn.flow == FLOW_JUMP ? insn.target : at + insn.size;
	}
	return err;
}

/* A call of _PyFrame_ClearExceptCode(frame), and its end. */
static int add_close(struct planner *p, struct inline_plan *out, uint64_t at)
{
	int err = add_call(p, out, at, 0, INLINE_CLOSE);

	return err ? err : add_closed(p, out, at + CALL_SIZE);
}

/* Sites that the probe plan has found. */
static int add_closes(struct planner *p, struct inline_plan *out)
{
	int err = 0;

	for (uint32_t i = 0; !err && i < p->plan->site_cnt; i++)
		if (p->plan->sites[i].kind == PROBE_GEN_CLOSE)
			err = add_close(p, out, p->plan->sites[i].vaddr);
	return err;
}

static int add_dealloc(struct planner *p, struct inline_plan *out)
{
	const struct python_version *v = p->table.version;
	uint64_t at, address;
	struct elf_symbol type;

	if (elf_file__symbol(p->elf, "PyCode_Type", &type))
		return -ENOENT;
	at = type.vaddr + (p->plan->free_threaded ? v->dealloc_nogil : v->dealloc);
	if (elf_file__pointer(p->elf, at, &address) || !elf_file__is_code(p->elf, address))
		return err_set(p->e, -PYE_EPLAN,
			       "3.%u: the deallocator of code objects is not where it is in a "
			       "release build",
			       v->minor);
	return add_word(p, out, at, address, INLINE_DEALLOC);
}

/* The first of @cnt instructions at the beginning of a small function that @is takes; false: none is before it goes elsewhere. */
static bool find_in(const struct planner *p, const char *name, int cnt,
		    bool (*is)(const struct insn *insn), struct insn *insn)
{
	struct elf_symbol function;
	uint64_t at;

	if (elf_file__symbol(p->elf, name, &function))
		return false;
	at = function.vaddr;
	for (int i = 0; i < cnt && !code__insn(&p->code, at, insn) && insn->flow == FLOW_NEXT;
	     i++) {
		if (is(insn))
			return true;
		at += insn->size;
	}
	return false;
}

/* mov reg, fs:[place] */
static const uint8_t read_fs[] = { 0x64, 0x48, 0x8b, 0x04, 0x25 };

static bool reads_fs(const struct insn *insn)
{
	return insn->size == sizeof(read_fs) + 4 && !memcmp(insn->bytes, read_fs, sizeof(read_fs));
}

/* From the function that returns it, which in an executable reads it at a fixed place. */
static void find_tstate(const struct planner *p, struct inline_plan *out)
{
	struct insn insn;

	if (find_in(p, "PyThreadState_Get", GETTER_SIZE, reads_fs, &insn))
		memcpy(&out->tstate_tls, insn.bytes + sizeof(read_fs), 4);
}

/* Nothing else in a function that returns a field lies as far from any register. */
static bool reads_field(const struct insn *insn)
{
	return insn->op == INSN_LOAD && insn->disp >= IS_LEAST && insn->disp < IS_MAX &&
	       insn->disp % 8 == 0;
}

static void find_eval_frame(const struct planner *p, struct inline_plan *out)
{
	struct insn insn;

	if (find_in(p, "_PyInterpreterState_GetEvalFrameFunc", EVAL_GETTER_SIZE, reads_field,
		    &insn))
		out->eval_frame = (uint32_t)insn.disp;
}

static void find_loop(const struct planner *p, struct inline_plan *out)
{
	struct elf_symbol loop;

	if (elf_file__symbol(p->elf, "_PyEval_EvalFrameDefault", &loop) || loop.size > LOOP_MAX)
		return;
	out->loop = loop.vaddr;
	out->loop_bytes = loop.size;
}

int plan_inline(struct planner *p, struct inline_plan *out)
{
	const struct python_version *v = p->table.version;
	int err;

	if (p->plan->free_threaded && v->minor > LAST_FREE)
		return err_set(p->e, -PYE_EPLAN,
			       "3.%u: the inline engine knows builds without a GIL of 3.13 only",
			       v->minor);
	out->minor = v->minor;
	find_eval_frame(p, out);
	find_loop(p, out);
	if (v->exit == EXIT_EVAL) {
		err = plan_inline_eval(p, out);
		return err ? err : add_dealloc(p, out);
	}
	out->frame_in_slot = p->home.source == PROBE_IN_SLOT;
	out->frame_reg = p->home.reg;
	out->frame_disp = p->home.disp;
	add_table(p, out);
	find_tstate(p, out);
	err = find_instr(p, out);
	if (!err)
		err = add_handlers(p, out);
	if (!err)
		err = v->exit == EXIT_CLEAR ? add_clears(p, out) : add_unwind(p, out);
	if (!err)
		err = add_throw(p, out);
	if (!err)
		err = plan_detours_check(p, out, 0);
	if (!err)
		err = add_closes(p, out);
	return err ? err : add_dealloc(p, out);
}

struct answer {
	int err;
	struct err e;
	struct inline_plan plan;
};

static void look(int fd, const void *arg, void *out)
{
	struct answer *a = out;
	struct elf_file *elf = NULL;

	a->err = elf_file__from_fd(fd, arg, &elf, &a->e);
	if (!a->err)
		a->err = plan_make_inline(elf, &a->plan, &a->e);
}

static bool is_sound(const struct answer *a)
{
	const struct inline_plan *p = &a->plan;

	if (a->err)
		return a->err < 0 && memchr(a->e.what, 0, sizeof(a->e.what)) &&
		       memchr(a->e.hint, 0, sizeof(a->e.hint));
	if (p->word_cnt > INLINE_WORDS_MAX || p->call_cnt > INLINE_CALLS_MAX ||
	    p->detour_cnt > INLINE_DETOURS_MAX || p->frame_reg >= MACHINE_REG_CNT ||
	    p->instr_reg >= MACHINE_REG_CNT || p->table % 8 || p->tstate_tls > 0 ||
	    p->tstate_tls < -TLS_MAX || p->tstate_tls % 8 || p->eval_frame >= IS_MAX ||
	    p->eval_frame % 8 || p->loop_bytes > LOOP_MAX)
		return false;
	for (uint32_t i = 0; i < p->word_cnt; i++)
		if (p->words[i].kind > INLINE_DEALLOC || p->words[i].at % 8)
			return false;
	for (uint32_t i = 0; i < p->call_cnt; i++)
		if (p->calls[i].kind > INLINE_DEALLOC)
			return false;
	for (uint32_t i = 0; i < p->detour_cnt; i++)
		if (p->detours[i].kind > INLINE_CLOSED || p->detours[i].sets_flags > 1 ||
		    (p->detours[i].kind == INLINE_THROW && p->detours[i].frame_disp) ||
		    p->detours[i].frame_reg >= MACHINE_REG_CNT ||
		    p->detours[i].size > INLINE_DETOUR_BYTES || p->detours[i].size < CALL_SIZE ||
		    p->detours[i].jump > p->detours[i].size)
			return false;
	return true;
}

int inline_plan_load(const char *path, struct inline_plan *out, struct err *e)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	auto_free struct answer *a = calloc(1, sizeof(*a));
	char shown[sizeof(a->e.what)];
	int err;

	if (fd < 0)
		return -errno;
	if (!a)
		return -ENOMEM;
	err = sandbox_run(look, fd, path, a, sizeof(*a), &sandbox_usual, e);
	if (err)
		return err;
	if (!is_sound(a))
		return err_set(e, -PYE_EPLAN, "the sandboxed reader's answer makes no sense");
	if (a->err)
		return err_set(e, a->err, "%s",
			       text_escape(shown, sizeof(shown), a->e.what, strlen(a->e.what)));
	*out = a->plan;
	return 0;
}
