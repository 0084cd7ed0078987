// SPDX-License-Identifier: Apache-2.0
/*
 * A library with restartable sequences (rseq(2)), as allocators have for what each CPU has of its own. The kernel forgets about the sequence
 * of a thread that it sees elsewhere; one that goes on in the middle of it afterwards comes to its end without one.
 */
#include <stdint.h>
#include <sys/rseq.h>

static uint64_t counter;

/* 0: it was begun anew; 1: it has come to its end; 2: so it has, but it was left in between: that is asked just before the end, behind
 * which the kernel can forget about it at any time */
static __attribute__((noinline)) int one(struct rseq *own, long spin)
{
	int ret;

	__asm__ volatile(".pushsection __rseq_cs, \"aw\"\n"
			 ".balign 32\n"
			 "0: .long 0, 0\n"
			 ".quad 1f, 2f - 1f, 3f\n"
			 ".popsection\n"
			 "lea 0b(%%rip), %%rax\n"
			 "mov %%rax, %[cs]\n"
			 "1: mov %[counter], %%rax\n"
			 "mov %[spin], %%rcx\n"
			 "4: dec %%rcx\n"
			 "jnz 4b\n"
			 "inc %%rax\n"
			 "mov %[cs], %%rcx\n"
			 "mov %%rax, %[counter]\n"
			 "2: mov $1, %[ret]\n"
			 "test %%rcx, %%rcx\n"
			 "jne 5f\n"
			 "mov $2, %[ret]\n"
			 "jmp 5f\n"
			 ".byte 0x0f, 0xb9, 0x3d\n"
			 ".long 0x53053053\n" /* RSEQ_SIG */
			 "3: xor %[ret], %[ret]\n"
			 "5:\n"
			 : [ret] "=&r"(ret), [counter] "+m"(counter), [cs] "+m"(own->rseq_cs)
			 : [spin] "r"(spin)
			 : "rax", "rcx", "memory", "cc");
	return ret;
}

/* How many of @cnt sequences were left; -1: this C library has registered none. @again: begun anew, so many times more */
long run(long cnt, long spin, long *again)
{
	struct rseq *own = (void *)((char *)__builtin_thread_pointer() + __rseq_offset);
	long left = 0;

	if (!__rseq_size)
		return -1;
	while (cnt) {
		int how = one(own, spin);

		*again += !how;
		cnt -= how != 0;
		left += how == 2;
	}
	return left;
}
