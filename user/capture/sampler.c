// SPDX-License-Identifier: Apache-2.0
#define LOG_DOMAIN "sampler"
#include "capture/sampler.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/libbpf.h>
#include <linux/perf_event.h>

#include "base/log.h"

/* Online, as the kernel says; CPU 0 often has no file, and cannot go. */
static bool is_online(size_t cpu)
{
	char path[64], state = '1';
	FILE *f;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%zu/online", cpu);
	f = fopen(path, "re");
	if (f) {
		if (fread(&state, 1, 1, f) != 1)
			state = '1';
		fclose(f);
	}
	return state != '0';
}

static int open_cpu(struct sampler *s, size_t cpu, struct bpf_program *prog, uint64_t period_ns)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = period_ns,
	};
	int fd = (int)syscall(SYS_perf_event_open, &attr, -1, (int)cpu, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd < 0)
		return -errno;
	s->links[cpu] = bpf_program__attach_perf_event(prog, fd);
	if (!s->links[cpu]) {
		int err = -errno;

		close(fd);
		return err;
	}
	return 0;
}

int sampler__start(struct sampler *s, struct bpf_program *prog, uint64_t period_ns)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	int err = 0;

	s->cpu_cnt = cpus > 0 ? (size_t)cpus : 1;
	s->links = calloc(s->cpu_cnt, sizeof(struct bpf_link *));
	s->ticks = calloc(s->cpu_cnt, sizeof(*s->ticks));
	if (!s->links || !s->ticks) {
		sampler__stop(s);
		return -ENOMEM;
	}
	for (size_t cpu = 0; cpu < s->cpu_cnt && !err; cpu++) {
		if (!is_online(cpu))
			continue;
		err = open_cpu(s, cpu, prog, period_ns);
		if (err == -ENODEV) /* it went meanwhile */
			err = 0;
	}
	if (err)
		sampler__stop(s);
	return err;
}

/* An event dies with its CPU and does not come back with it. The kernel's list is no help for one that was
 * away between two looks: its clock stands. */
void sampler__look(struct sampler *s, struct bpf_program *prog, uint64_t period_ns,
		   const uint64_t *ticks, size_t cnt)
{
	for (size_t cpu = 0; cpu < s->cpu_cnt; cpu++) {
		bool stands = cpu < cnt && ticks[cpu] == s->ticks[cpu];
		int err;

		if (cpu < cnt)
			s->ticks[cpu] = ticks[cpu];
		if (!stands && s->links[cpu])
			continue;
		bpf_link__destroy(s->links[cpu]);
		s->links[cpu] = NULL;
		if (!is_online(cpu))
			continue;
		err = open_cpu(s, cpu, prog, period_ns);
		log_debug("the clock of CPU %zu is opened anew: %d", cpu, err);
	}
}

void sampler__stop(struct sampler *s)
{
	for (size_t cpu = 0; s->links && cpu < s->cpu_cnt; cpu++)
		bpf_link__destroy(s->links[cpu]);
	bpf_link__destroy(s->meet);
	bpf_link__destroy(s->off);
	s->meet = s->off = NULL;
	free(s->links);
	free(s->ticks);
	s->links = NULL;
	s->ticks = NULL;
	s->cpu_cnt = 0;
}
