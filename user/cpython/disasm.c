// SPDX-License-Identifier: Apache-2.0
/*
 * x86-64 by capstone. What it says about registers written is taken together with our own rule (the
 * first operand of everything that is not a comparison), since its tables have gaps; too many writes
 * only make a plan more careful.
 */
#include "cpython/disasm.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <capstone/capstone.h>

#include "elf/elf_file.h"

#define WINDOW 4096
/* Plans walk the same code again and again; each instruction of an interpreter's loop has a place of its own, nearly. */
#define KNOWN_CNT 16384u

const uint8_t machine_args[6] = { PREG_RDI, PREG_RSI, PREG_RDX, PREG_RCX, PREG_R8, PREG_R9 };

/* Registers that a call may change, the result included. */
#define CALL_WRITES                                                                           \
	(1u << PREG_RAX | 1u << PREG_RCX | 1u << PREG_RDX | 1u << PREG_RSI | 1u << PREG_RDI | \
	 1u << PREG_R8 | 1u << PREG_R9 | 1u << PREG_R10 | 1u << PREG_R11)

struct disasm {
	const struct elf_file *elf;
	csh cs;
	cs_insn *insn;
	uint64_t start, end; /* of what the window holds */
	uint8_t window[WINDOW];
	struct insn known[KNOWN_CNT]; /* by address; size 0: none */
};

int disasm__new(const struct elf_file *elf, struct disasm **out, struct err *e)
{
	struct disasm *d;

	if (elf_file__machine(elf) != EM_X86_64)
		return err_set(
			e, -PYE_EVERSION,
			"the file is for machine %u (ELF number), and only x86-64 (62) is known "
			"so far",
			elf_file__machine(elf));
	d = calloc(1, sizeof(*d));
	if (!d)
		return -ENOMEM;
	d->elf = elf;
	if (cs_open(CS_ARCH_X86, CS_MODE_64, &d->cs) != CS_ERR_OK) {
		free(d);
		return -ENOMEM;
	}
	cs_option(d->cs, CS_OPT_DETAIL, CS_OPT_ON);
	d->insn = cs_malloc(d->cs);
	if (!d->insn) {
		disasm__free(d);
		return -ENOMEM;
	}
	*out = d;
	return 0;
}

void disasm__free(struct disasm *d)
{
	if (!d)
		return;
	if (d->insn)
		cs_free(d->insn, 1);
	cs_close(&d->cs);
	free(d);
}

const struct elf_file *disasm__elf(const struct disasm *d)
{
	return d->elf;
}

/* Row of a register in the order of enum probe_reg: all its widths. */
static const uint16_t registers[MACHINE_REG_CNT][5] = {
	{ X86_REG_RAX, X86_REG_EAX, X86_REG_AX, X86_REG_AL, X86_REG_AH },
	{ X86_REG_RBX, X86_REG_EBX, X86_REG_BX, X86_REG_BL, X86_REG_BH },
	{ X86_REG_RCX, X86_REG_ECX, X86_REG_CX, X86_REG_CL, X86_REG_CH },
	{ X86_REG_RDX, X86_REG_EDX, X86_REG_DX, X86_REG_DL, X86_REG_DH },
	{ X86_REG_RSI, X86_REG_ESI, X86_REG_SI, X86_REG_SIL },
	{ X86_REG_RDI, X86_REG_EDI, X86_REG_DI, X86_REG_DIL },
	{ X86_REG_RBP, X86_REG_EBP, X86_REG_BP, X86_REG_BPL },
	{ X86_REG_RSP, X86_REG_ESP, X86_REG_SP, X86_REG_SPL },
	{ X86_REG_R8, X86_REG_R8D, X86_REG_R8W, X86_REG_R8B },
	{ X86_REG_R9, X86_REG_R9D, X86_REG_R9W, X86_REG_R9B },
	{ X86_REG_R10, X86_REG_R10D, X86_REG_R10W, X86_REG_R10B },
	{ X86_REG_R11, X86_REG_R11D, X86_REG_R11W, X86_REG_R11B },
	{ X86_REG_R12, X86_REG_R12D, X86_REG_R12W, X86_REG_R12B },
	{ X86_REG_R13, X86_REG_R13D, X86_REG_R13W, X86_REG_R13B },
	{ X86_REG_R14, X86_REG_R14D, X86_REG_R14W, X86_REG_R14B },
	{ X86_REG_R15, X86_REG_R15D, X86_REG_R15W, X86_REG_R15B },
};

/* Which general register a name of any width is part of, or PREG_NONE. */
static uint8_t whole_register(unsigned int reg)
{
	for (uint8_t i = 0; i < MACHINE_REG_CNT; i++)
		for (size_t k = 0; k < 5; k++)
			if (reg && registers[i][k] == reg)
				return i;
	return PREG_NONE;
}

static uint8_t word_register(unsigned int reg)
{
	uint8_t whole = whole_register(reg);

	return whole != PREG_NONE && registers[whole][0] == reg ? whole : PREG_NONE;
}

static uint32_t register_bit(unsigned int reg)
{
	uint8_t whole = whole_register(reg);

	return whole == PREG_NONE ? 0 : 1u << whole;
}

/* The kernel's rule (arch/x86/kernel/uprobes.c), by bytes and without prefixes. Multi-byte nops are
 * left out: old kernels single-step them, new ones may rewrite the 5-byte one into a call. */
static bool is_emulated(const uint8_t *b, size_t size)
{
	switch (b[0]) {
	case 0xe8: /* call */
	case 0xe9: /* jmp */
	case 0xeb:
		return true;
	case 0x0f: /* jcc with 32 bits */
		return (b[1] & 0xf0) == 0x80;
	case 0x90: /* nop */
		return size == 1;
	case 0x41: /* push r8 to r15 */
		return size == 2 && (b[1] & 0xf8) == 0x50;
	default: /* jcc with 8 bits; push */
		return (b[0] & 0xf0) == 0x70 || (size == 1 && (b[0] & 0xf8) == 0x50);
	}
}

/* A segment or lock prefix: the kernel refuses the probe. */
static bool is_refused(const uint8_t *b, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		switch (b[i]) {
		case 0x26:
		case 0x2e:
		case 0x36:
		case 0x3e:
		case 0x64:
		case 0x65:
		case 0xf0:
			return true;
		case 0x66:
		case 0x67:
		case 0xf2:
		case 0xf3:
			continue;
		default:
			return false;
		}
	}
	return false;
}

static void set_flow(struct insn *out, unsigned int id, const cs_x86 *x)
{
	bool direct = x->op_count == 1 && x->operands[0].type == X86_OP_IMM;

	switch (id) {
	case X86_INS_CALL:
	case X86_INS_LCALL:
		out->flow = FLOW_CALL;
		break;
	case X86_INS_JMP:
	case X86_INS_LJMP:
		out->flow = FLOW_JUMP;
		break;
	case X86_INS_RET:
	case X86_INS_RETF:
	case X86_INS_RETFQ:
	case X86_INS_IRETQ:
		out->flow = FLOW_RETURN;
		return;
	case X86_INS_HLT:
	case X86_INS_UD2:
	case X86_INS_INT3:
		out->flow = FLOW_STOP;
		return;
	default:
		if (!direct || ((out->bytes[0] & 0xf0) != 0x70 &&
				(out->bytes[0] != 0x0f || (out->bytes[1] & 0xf0) != 0x80)))
			return;
		out->flow = FLOW_COND;
		out->cond =
			(uint8_t)(COND_X86 | (out->bytes[out->bytes[0] == 0x0f ? 1 : 0] & 0x0f));
	}
	if (direct)
		out->target = (uint64_t)x->operands[0].imm;
}

/* Instructions whose first operand is only read. */
static bool only_reads(unsigned int id)
{
	switch (id) {
	case X86_INS_CMP:
	case X86_INS_TEST:
	case X86_INS_PUSH:
	case X86_INS_BT:
	case X86_INS_NOP:
	case X86_INS_COMISS:
	case X86_INS_COMISD:
	case X86_INS_UCOMISS:
	case X86_INS_UCOMISD:
	case X86_INS_JMP:
	case X86_INS_CALL:
		return true;
	default:
		return false;
	}
}

static void set_writes(struct disasm *d, struct insn *out, const cs_x86 *x)
{
	unsigned int id = d->insn->id;
	cs_regs reads, writes;
	uint8_t read_cnt, write_cnt;

	if (out->flow == FLOW_CALL)
		out->writes = CALL_WRITES;
	for (uint8_t i = 0; i < x->op_count; i++) {
		if (x->operands[i].type != X86_OP_REG)
			continue;
		if (id == X86_INS_XCHG || id == X86_INS_XADD || id == X86_INS_CMPXCHG ||
		    (i == 0 && !only_reads(id)))
			out->writes |= register_bit(x->operands[i].reg);
	}
	if (id == X86_INS_CMP || id == X86_INS_TEST || out->flow == FLOW_CALL ||
	    cs_regs_access(d->cs, d->insn, reads, &read_cnt, writes, &write_cnt) != CS_ERR_OK)
		return;
	for (uint8_t i = 0; i < write_cnt; i++)
		out->writes |= register_bit(writes[i]);
}

/* [register + distance] and nothing more. */
static bool is_plain_memory(const cs_x86_op *op)
{
	return op->type == X86_OP_MEM && op->mem.segment == X86_REG_INVALID &&
	       op->mem.index == X86_REG_INVALID && word_register(op->mem.base) != PREG_NONE;
}

static void set_memory(struct insn *out, enum insn_op op, const cs_x86_op *memory)
{
	out->op = (uint8_t)op;
	out->disp = memory->mem.disp;
	if (op == INSN_STORE)
		out->dst = word_register(memory->mem.base);
	else
		out->src = word_register(memory->mem.base);
}

static void set_move(struct insn *out, const cs_x86_op *to, const cs_x86_op *from)
{
	if (to->type == X86_OP_REG && word_register(to->reg) != PREG_NONE) {
		out->dst = word_register(to->reg);
		if (from->type == X86_OP_REG && word_register(from->reg) != PREG_NONE) {
			out->op = INSN_COPY;
			out->src = word_register(from->reg);
		} else if (is_plain_memory(from) && from->size == 8) {
			set_memory(out, INSN_LOAD, from);
		}
	} else if (is_plain_memory(to)) {
		set_memory(out, INSN_STORE, to);
		out->src = from->type == X86_OP_REG ? word_register(from->reg) : PREG_NONE;
		out->mem_size = to->size;
		out->zero = from->type == X86_OP_IMM && !from->imm;
	}
}

/* Arithmetic whose first operand is memory stores something there. */
static void set_other_store(struct insn *out, unsigned int id, const cs_x86_op *to)
{
	if (!is_plain_memory(to) || only_reads(id))
		return;
	set_memory(out, INSN_STORE, to);
	out->src = PREG_NONE;
	out->mem_size = to->size;
}

static bool is_same_register(const cs_x86_op *a, const cs_x86_op *b)
{
	return a->type == X86_OP_REG && b->type == X86_OP_REG && a->reg == b->reg;
}

static void set_arithmetic(struct insn *out, unsigned int id, const cs_x86_op *a,
			   const cs_x86_op *b)
{
	uint8_t reg = a->type == X86_OP_REG ? word_register(a->reg) : PREG_NONE;

	if ((id == X86_INS_XOR || id == X86_INS_SUB) && is_same_register(a, b)) {
		out->op = INSN_ZERO;
		out->dst = whole_register(a->reg);
	} else if ((id == X86_INS_ADD || id == X86_INS_SUB) && reg != PREG_NONE &&
		   b->type == X86_OP_IMM) {
		out->op = INSN_COPY;
		out->dst = out->src = reg;
		out->disp = id == X86_INS_ADD ? b->imm : -b->imm;
	} else {
		set_other_store(out, id, a);
	}
}

static void set_op(struct insn *out, unsigned int id, const cs_x86 *x)
{
	const cs_x86_op *a = &x->operands[0], *b = &x->operands[1];

	if (id == X86_INS_PUSH) {
		out->op = INSN_PUSH;
		out->src = a->type == X86_OP_REG ? word_register(a->reg) : PREG_NONE;
	} else if (id == X86_INS_POP && a->type == X86_OP_REG) {
		out->op = INSN_POP;
		out->dst = word_register(a->reg);
	} else if (x->op_count != 2) {
		if (x->op_count == 1)
			set_other_store(out, id, a);
	} else if (id == X86_INS_MOV) {
		set_move(out, a, b);
	} else if (id == X86_INS_LEA && is_plain_memory(b) && word_register(a->reg) != PREG_NONE) {
		out->op = INSN_COPY;
		out->dst = word_register(a->reg);
		out->src = word_register(b->mem.base);
		out->disp = b->mem.disp;
	} else if (id == X86_INS_CMP && is_plain_memory(a) && a->size == 1) {
		set_memory(out, INSN_TEST_BYTE, a);
	} else if ((id == X86_INS_MOVZX || id == X86_INS_MOVSX) && is_plain_memory(b) &&
		   b->size == 1) {
		set_memory(out, INSN_TEST_BYTE, b);
		out->dst = whole_register(a->reg);
	} else {
		set_arithmetic(out, id, a, b);
	}
}

static void set_pointer(struct insn *out, const cs_x86 *x)
{
	for (uint8_t i = 0; i < x->op_count; i++)
		if (x->operands[i].type == X86_OP_MEM && x->operands[i].mem.base == X86_REG_RIP)
			out->pointer = out->addr + out->size + (uint64_t)x->operands[i].mem.disp;
}

static bool is_nop(const struct disasm *d, const cs_x86 *x)
{
	return d->insn->id == X86_INS_NOP || d->insn->id == X86_INS_INT3 ||
	       d->insn->id == X86_INS_DATA16 ||
	       (d->insn->id == X86_INS_XCHG && is_same_register(&x->operands[0], &x->operands[1]));
}

/* -EFAULT if the address is not in the window's reach. */
static int fill_window(struct disasm *d, uint64_t addr)
{
	uint64_t start, end;

	if (addr >= d->start && addr < d->end && d->end - addr >= MACHINE_INSN_MAX)
		return 0;
	for (size_t i = 0; elf_file__code(d->elf, i, &start, &end); i++) {
		if (addr < start || addr >= end)
			continue;
		if (end - addr > WINDOW)
			end = addr + WINDOW;
		if (addr >= d->start && end <= d->end)
			return 0;
		d->start = d->end = 0;
		if (elf_file__read(d->elf, addr, d->window, end - addr))
			return -EFAULT;
		d->start = addr;
		d->end = end;
		return 0;
	}
	return -EFAULT;
}

static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };

static int decode(struct disasm *d, uint64_t addr, struct insn *out)
{
	const uint8_t *code;
	uint64_t at = addr;
	size_t left;

	if (fill_window(d, addr))
		return -EFAULT;
	code = d->window + (addr - d->start);
	left = d->end - addr;
	*out = (struct insn){ .addr = addr, .dst = PREG_NONE, .src = PREG_NONE };
	if (left >= sizeof(endbr64) && !memcmp(code, endbr64, sizeof(endbr64))) {
		out->size = sizeof(endbr64);
		memcpy(out->bytes, endbr64, sizeof(endbr64));
		snprintf(out->text, sizeof(out->text), "endbr64");
		return 0;
	}
	if (!cs_disasm_iter(d->cs, &code, &left, &at, d->insn) || !d->insn->detail ||
	    d->insn->size > MACHINE_INSN_MAX)
		return -EILSEQ;
	out->size = (uint8_t)d->insn->size;
	memcpy(out->bytes, d->insn->bytes, out->size);
	out->emulated = is_emulated(out->bytes, out->size);
	out->refused = is_refused(out->bytes, out->size);
	out->nop = is_nop(d, &d->insn->detail->x86);
	out->compares = d->insn->id == X86_INS_CMP || d->insn->id == X86_INS_TEST;
	snprintf(out->text, sizeof(out->text), "%.15s%s%.40s", d->insn->mnemonic,
		 d->insn->op_str[0] ? " " : "", d->insn->op_str);
	set_flow(out, d->insn->id, &d->insn->detail->x86);
	set_op(out, d->insn->id, &d->insn->detail->x86);
	set_pointer(out, &d->insn->detail->x86);
	set_writes(d, out, &d->insn->detail->x86);
	return 0;
}

int disasm__at(struct disasm *d, uint64_t addr, struct insn *out)
{
	struct insn *known = &d->known[addr % KNOWN_CNT];
	int err = 0;

	if (!known->size || known->addr != addr)
		err = decode(d, addr, known);
	if (err)
		known->size = 0;
	else
		*out = *known;
	return err;
}

bool insn__compares_word(const struct insn *insn, uint64_t table, uint64_t *with)
{
	int32_t disp, value;

	memcpy(&disp, insn->bytes + 4, 4);
	memcpy(&value, insn->bytes + 8, 4);
	if (insn->size != 12 || (insn->bytes[0] & 0xf8) != 0x48 || insn->bytes[1] != 0x81 ||
	    insn->bytes[2] != 0x3c || (insn->bytes[3] & 0xc7) != 0xc5 ||
	    (uint64_t)(int64_t)disp != table)
		return false;
	*with = (uint64_t)(int64_t)value;
	return true;
}

/* By the number that the machine gives it; @high: the bit that a prefix adds. */
static uint8_t numbered_register(uint8_t number, bool high)
{
	static const uint8_t numbers[MACHINE_REG_CNT] = {
		PREG_RAX, PREG_RCX, PREG_RDX, PREG_RBX, PREG_RSP, PREG_RBP, PREG_RSI, PREG_RDI,
		PREG_R8,  PREG_R9,  PREG_R10, PREG_R11, PREG_R12, PREG_R13, PREG_R14, PREG_R15,
	};

	return numbers[(number & 7) + (high ? 8 : 0)];
}

bool insn__adds(const struct insn *insn, uint8_t *to, uint8_t *from)
{
	const uint8_t *b = insn->bytes;
	uint8_t reg, other;

	if (insn->size != 3 || (b[0] & 0xfa) != 0x48 || (b[1] != 0x01 && b[1] != 0x03) ||
	    (b[2] & 0xc0) != 0xc0)
		return false;
	reg = numbered_register(b[2] >> 3, b[0] & 4);
	other = numbered_register(b[2], b[0] & 1);
	*to = b[1] == 0x01 ? other : reg;
	*from = b[1] == 0x01 ? reg : other;
	return true;
}

uint8_t insn__names_address(const struct insn *insn)
{
	const uint8_t *b = insn->bytes;

	return insn->pointer && (b[0] & 0xfb) == 0x48 && b[1] == 0x8d
		       ? numbered_register(b[2] >> 3, b[0] & 4)
		       : PREG_NONE;
}

uint8_t insn__jumps_through(const struct insn *insn)
{
	const uint8_t *b = insn->bytes;
	bool high;

	if (insn->size && *b == 0x3e) /* notrack */
		b++;
	high = *b == 0x41;
	b += high;
	return b[0] == 0xff && (b[1] & 0xf8) == 0xe0 ? numbered_register(b[1], high) : PREG_NONE;
}

/* Constants come last in an instruction, as do distances of jumps and of memory relative to the program counter. */
bool insn__has_address(const struct insn *insn, uint64_t at)
{
	size_t offset = at - insn->addr, behind = insn->size - offset;
	int32_t value;

	memcpy(&value, insn->bytes + offset, 4);
	if (insn->bytes[offset] == 0x8d && behind == 6 && insn->pointer)
		return true;
	if (behind != 4 && behind != 8)
		return false;
	return !insn->target &&
	       insn->pointer - (insn->addr + insn->size) != (uint64_t)(int64_t)value;
}
