// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "abi/select.h"
#include "base/clock.h"
#include "capture/cap_bpf_priv.h"
#include "proc/cgroup.h"
#include "trace.skel.h"

static int select_cgroup(struct trace_bpf *skel, const struct cgroup_key *key)
{
	const struct pye_cgroup cgroup = { .id = key->id, .hierarchy = key->hierarchy };
	/* that one of its cgroups is chosen */
	const struct pye_cgroup all = { .id = 0, .hierarchy = key->hierarchy };
	int fd = bpf_map__fd(skel->maps.select_cgroups);
	uint32_t yes = 1;

	if (key->hierarchy && bpf_map_update_elem(fd, &all, &yes, BPF_ANY))
		return -1;
	return bpf_map_update_elem(fd, &cgroup, &yes, BPF_ANY);
}

static uint32_t cgroup_flags(const struct cap_select *rule)
{
	uint32_t flags = 0;

	for (size_t i = 0; i < rule->cgroup_cnt; i++)
		flags |= rule->cgroups[i].hierarchy ? PYE_SELECT_CGROUP1 : PYE_SELECT_CGROUP2;
	return flags;
}

int cap_bpf__select(struct cap_bpf *c, const struct cap_select *rule)
{
	struct trace_bpf *skel = c->bpf.skel;
	uint32_t yes = 1;

	for (size_t i = 0; i < rule->comm_cnt; i++) {
		char comm[PYE_COMM] = { 0 };

		memcpy(comm, rule->comms[i], strnlen(rule->comms[i], sizeof(comm) - 1));
		if (bpf_map_update_elem(bpf_map__fd(skel->maps.select_comms), comm, &yes, BPF_ANY))
			return -errno;
	}
	for (size_t i = 0; i < rule->cgroup_cnt; i++)
		if (select_cgroup(skel, &rule->cgroups[i]))
			return -errno;
	skel->bss->select_by = (rule->all ? PYE_SELECT_ALL : 0u) |
			       (rule->comm_cnt ? PYE_SELECT_COMM : 0u) | cgroup_flags(rule);
	skel->bss->select_flags = rule->follow ? PYE_PROC_FOLLOW | PYE_PROC_STAYS : 0;
	if (c->sample_ns) /* what a process forks is as much chosen as itself */
		skel->bss->select_flags |= PYE_PROC_FOLLOW;
	__atomic_store_n(&skel->bss->select_on, PYE_SELECT_EXECS, __ATOMIC_RELEASE);
	return 0;
}

void cap_bpf__take_calls(struct cap_bpf *c)
{
	__atomic_store_n(&c->bpf.skel->bss->select_on, PYE_SELECT_CALLS, __ATOMIC_RELEASE);
}

/* One load address for all sites, from any of them. */
static int segment(const struct probe_plan *plan, uint64_t *delta)
{
	*delta = plan->sites[0].vaddr - plan->sites[0].offset;
	for (uint32_t i = 1; plan->tstate_current && i < plan->site_cnt; i++)
		if (plan->sites[i].vaddr - plan->sites[i].offset != *delta)
			return -PYE_EPLAN;
	return 0;
}

static int describe_file(struct cap_bpf *c, const struct interp *in, struct pye_file *file,
			 struct err *e)
{
	uint64_t delta;
	uint16_t layout = 0;
	int err = segment(&in->plan, &delta);

	if (err)
		return err_set(e, err, "the interpreter's code lies in several segments");
	file->segment = delta;
	err = cap_layout(c, &in->layout, &layout);
	if (!err && c->file_cnt + 1 >= PYE_FILES_MAX)
		err = -E2BIG;
	if (err)
		return err_set(e, err, "too many Python versions or files are traced at once");
	file->layout = layout;
	file->tstate_current = in->plan.tstate_current;
	file->interpreters = in->interpreters ? in->interpreters - in->bias : 0;
	file->code = in->plan.sites[0].offset;
	return 0;
}

uint32_t cap_bpf__file(struct cap_bpf *c, const struct interp *in)
{
	struct known_file *more, known = { .dev = in->dev, .ino = in->ino };
	uint32_t number;

	if (!c->locate || describe_file(c, in, &known.file, NULL))
		return 0;
	for (number = 1; number <= c->file_cnt; number++) {
		const struct known_file *k = &c->files[number - 1];

		/* an inode's number can be that of another file by now */
		known.file.ready_ns = k->file.ready_ns;
		if (k->dev == in->dev && k->ino == in->ino &&
		    !memcmp(&k->file, &known.file, sizeof(k->file)))
			return number;
	}
	more = realloc(c->files, number * sizeof(*more));
	if (!more)
		return 0;
	c->files = more;
	known.file.ready_ns = now_ns();
	if (bpf_map_update_elem(bpf_map__fd(c->bpf.skel->maps.files), &number, &known.file,
				BPF_ANY))
		return 0;
	c->files[c->file_cnt++] = known;
	return number;
}

uint64_t cap_bpf__placed(const struct cap_bpf *c, pid_t pid, uint32_t file)
{
	for (size_t i = 0; i < c->attached_cnt; i++) {
		const struct attached *a = &c->attached[i];

		if (a->file == file && (!a->pid || a->pid == (uint32_t)pid))
			return a->placed_ns;
	}
	return 0;
}

int cap_bpf__probe_file(struct cap_bpf *c, const struct interp *in, pid_t pid, uint32_t *number,
			struct err *e)
{
	struct pye_file file = { 0 };
	int err = describe_file(c, in, &file, e);

	if (err)
		return err;
	cap_unstop(c);
	*number = c->file_cnt + 1;
	err = c->sample_ns ? cap_sample_file(c, in, pid, *number, e)
			   : cap_place(c, in, 0, *number, e);
	if (err)
		return err;
	c->file_cnt++;
	file.ready_ns = now_ns();
	if (bpf_map_update_elem(bpf_map__fd(c->bpf.skel->maps.files), number, &file, BPF_ANY))
		return err_set(e, -errno, "the file's probes cannot be told to the kernel");
	return 0;
}

void cap_bpf__begin(struct cap_bpf *c, pid_t pid, bool stays)
{
	cap_set_flags(c, pid,
		      PYE_PROC_TRACED | PYE_PROC_SHARED | PYE_PROC_SELECTED |
			      (c->sample_ns ? PYE_PROC_SAMPLED | PYE_PROC_FOLLOW : 0u) |
			      (stays ? PYE_PROC_STAYS : 0u),
		      0);
}
