/* SPDX-License-Identifier: Apache-2.0 */
/* The clocks of a sampling run: one perf event on each CPU, with a BPF program behind it. */
#ifndef PYEBPF_CAPTURE_SAMPLER_H
#define PYEBPF_CAPTURE_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

struct bpf_program;
struct bpf_link;

struct sampler {
	struct bpf_link **links; /* by CPU; NULL: it is offline */
	uint64_t *ticks; /* by CPU, as the last look found them */
	uint64_t look_ns; /* when the next one is due */
	size_t cpu_cnt;
	struct bpf_link *meet, *off; /* in the scheduler; NULL: not there */
};

/**
 * sampler__start - begin to sample on every CPU that is online
 * @prog:      loaded, of type perf_event
 * @period_ns: between two samples of a CPU
 *
 * Return: 0; -ENOMEM; the kernel's refusal. Nothing runs then.
 */
int sampler__start(struct sampler *s, struct bpf_program *prog, uint64_t period_ns);

/**
 * sampler__look - sample on CPUs, too, that came online since; those that went are closed
 * @ticks: of each CPU's clock so far, @cnt of them; a clock that stands is opened anew
 *
 * To be called at intervals of several periods.
 */
void sampler__look(struct sampler *s, struct bpf_program *prog, uint64_t period_ns,
		   const uint64_t *ticks, size_t cnt);

/* sampler__stop - no program runs any more when it returns; a zeroed one is fine. */
void sampler__stop(struct sampler *s);

#endif
