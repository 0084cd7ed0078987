/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests: executes code with all registers as wanted, and says what they are when it gets to cpu_land.
 * Included by one file of a program: it defines what its assembly names.
 */
#ifndef PYEBPF_TESTS_CPU_RUN_H
#define PYEBPF_TESTS_CPU_RUN_H

#include <stddef.h>
#include <stdint.h>

#include "cpython/plan.h"

#define XMM_AT	  160 /* of struct cpu's state */
#define XMM_BYTES 256
#define PARTS_AT  512 /* which parts of it are there */
#define YMM_AT	  576 /* the upper halves */
#define YMM_BYTES 256
#define PARTS	  7ull /* x87, SSE, AVX */

struct cpu {
	uint64_t regs[16]; /* enum probe_reg */
	uint64_t flags;
	uint8_t state[YMM_AT + YMM_BYTES] __attribute__((aligned(64))); /* as XSAVE has it */
};

/* Names of the code below. */
struct cpu cpu_in, cpu_out;
uint64_t cpu_stub, cpu_stack;
uint32_t cpu_avx; /* it has vector registers of 32 bytes */
void cpu_run(void); /* from cpu_in at cpu_stub, until it gets to cpu_land: cpu_out */
void cpu_land(void);

/* clang-format off */
#define EACH_REG(X) \
	X(rax, PREG_RAX) X(rbx, PREG_RBX) X(rcx, PREG_RCX) X(rdx, PREG_RDX) \
	X(rsi, PREG_RSI) X(rdi, PREG_RDI) X(rbp, PREG_RBP) X(rsp, PREG_RSP) \
	X(r8, PREG_R8)   X(r9, PREG_R9)   X(r10, PREG_R10) X(r11, PREG_R11) \
	X(r12, PREG_R12) X(r13, PREG_R13) X(r14, PREG_R14) X(r15, PREG_R15)
#define LOAD_REG(name, number) "mov cpu_in+8*%c[" #number "](%%rip), %%" #name "\n"
#define SAVE_REG(name, number) "mov %%" #name ", cpu_out+8*%c[" #number "](%%rip)\n"
#define NUMBER(name, number)   [number] "i"(number),

__attribute__((used, noinline)) static void cpu_code(void)
{
	__asm__ volatile(
		".globl cpu_run, cpu_land\n"
		"jmp 1f\n"
		"cpu_run: push %%rbx; push %%rbp; push %%r12; push %%r13; push %%r14; push %%r15\n"
		"mov $7, %%eax\n" /* PARTS */
		"xor %%edx, %%edx\n"
		"cmpl $0, cpu_avx(%%rip)\n"
		"je 2f\n"
		"xrstor64 cpu_in+%c[state](%%rip)\n"
		"jmp 3f\n"
		"2: fxrstor64 cpu_in+%c[state](%%rip)\n"
		"3: mov %%rsp, cpu_stack(%%rip)\n"
		"pushq cpu_in+%c[flags](%%rip)\n"
		"popfq\n"
		EACH_REG(LOAD_REG)
		"jmp *cpu_stub(%%rip)\n"
		"cpu_land: endbr64\n"
		EACH_REG(SAVE_REG)
		"mov cpu_stack(%%rip), %%rsp\n"
		"pushfq\n"
		"popq cpu_out+%c[flags](%%rip)\n"
		"cld\n"
		"mov $7, %%eax\n"
		"xor %%edx, %%edx\n"
		"cmpl $0, cpu_avx(%%rip)\n"
		"je 2f\n"
		"xsave64 cpu_out+%c[state](%%rip)\n"
		"vzeroupper\n"
		"jmp 3f\n"
		"2: fxsave64 cpu_out+%c[state](%%rip)\n"
		"3: pop %%r15; pop %%r14; pop %%r13; pop %%r12; pop %%rbp; pop %%rbx\n"
		"ret\n"
		"1:\n"
		:
		: EACH_REG(NUMBER) [flags] "i"(offsetof(struct cpu, flags)),
		  [state] "i"(offsetof(struct cpu, state)));
}
/* clang-format on */

#endif
