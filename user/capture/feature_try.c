// SPDX-License-Identifier: Apache-2.0
/* Each thing that pyebpf uses of the kernel, used once in the smallest way. */
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>

#include "base/cleanup.h"
#include "capture/feature.h"

static int made(int fd)
{
	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

int feature_map(void)
{
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "pye_feature", 4, 8, 1, NULL);

	return fd < 0 ? -errno : fd;
}

int feature_read_map(int fd)
{
	uint32_t key = 0;
	uint64_t value;

	return bpf_map_lookup_elem(fd, &key, &value) ? -errno : 0;
}

int feature_try_map(void)
{
	int fd = feature_map();

	return fd < 0 ? fd : made(fd);
}

int feature_try_ring(void)
{
	__u32 size = (__u32)sysconf(_SC_PAGESIZE);

	return made(bpf_map_create(BPF_MAP_TYPE_RINGBUF, "pye_feature", 0, 0, size, NULL));
}

int feature_try_btf(void)
{
	struct btf *btf = btf__load_vmlinux_btf();

	if (!btf)
		return -errno;
	btf__free(btf);
	return 0;
}

/* What the kernel wants to know of a map whose values it keeps itself: the type of key and value. */
static int load_int_type(int *type)
{
	const void *raw = NULL;
	struct btf *btf;
	__u32 size = 0;
	int fd = -ENOMEM;

	btf = btf__new_empty();
	if (!btf)
		return -errno;
	*type = btf__add_int(btf, "int", 4, BTF_INT_SIGNED);
	if (*type > 0)
		raw = btf__raw_data(btf, &size);
	if (raw) {
		fd = bpf_btf_load(raw, size, NULL);
		fd = fd < 0 ? -errno : fd;
	}
	btf__free(btf);
	return fd;
}

int feature_try_task_storage(void)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_NO_PREALLOC);
	auto_close int btf_fd = -1;
	int type = 0;

	btf_fd = load_int_type(&type);
	if (btf_fd < 0)
		return btf_fd;
	opts.btf_fd = (__u32)btf_fd;
	opts.btf_key_type_id = opts.btf_value_type_id = (__u32)type;
	return made(bpf_map_create(BPF_MAP_TYPE_TASK_STORAGE, "pye_feature", 4, 4, 0, &opts));
}

/* return 0; */
static const struct bpf_insn nothing[] = {
	/* NOLINTNEXTLINE(misc-redundant-expression): some of the kernel's names are 0 */
	{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 0 },
	{ .code = BPF_JMP | BPF_EXIT },
};

static int load(enum bpf_prog_type type, const struct bpf_prog_load_opts *opts)
{
	int fd = bpf_prog_load(type, "pye_feature", "GPL", nothing,
			       sizeof(nothing) / sizeof(nothing[0]), opts);

	return fd < 0 ? -errno : fd;
}

int feature_try_trace_point(void)
{
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = BPF_TRACE_RAW_TP);
	auto_close int prog_fd = -1;
	int id = libbpf_find_vmlinux_btf_id("sched_process_exec", BPF_TRACE_RAW_TP);

	if (id < 0)
		return id;
	opts.attach_btf_id = (__u32)id;
	prog_fd = load(BPF_PROG_TYPE_TRACING, &opts);
	return prog_fd < 0 ? prog_fd : made(bpf_raw_tracepoint_open(NULL, prog_fd));
}

int feature_try_sleepable(void)
{
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .prog_flags = BPF_F_SLEEPABLE);
	int fd = load(BPF_PROG_TYPE_KPROBE, &opts);

	return fd < 0 ? fd : made(fd);
}

int feature_try_perf(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.freq = 1,
		.sample_freq = 99,
		.disabled = 1,
	};

	return made((int)syscall(SYS_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC));
}
