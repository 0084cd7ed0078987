// SPDX-License-Identifier: Apache-2.0
/*
 * A JIT's traces run past the probes on the opcode handlers. Whether it is on stands in each
 * PyInterpreterState, deep inside; before there is one, the environment says what is going to happen.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "cpython/interp.h"
#include "cpython/layouts.h"
#include "cpython/version.h"
#include "proc/info.h"
#include "proc/mem.h"

#define INTERPRETERS_MAX 1024

/* In every build ob_type and tp_name lie this far before tp_dealloc. */
#define OB_TYPE_BEFORE 40
#define TP_NAME_BEFORE 24

enum jit {
	JIT_OFF,
	JIT_ON,
	JIT_UNKNOWN
};

/* 3.13: the optimizer's type is called "noop_optimizer" or "uop_optimizer"; without the second tier
 * of the interpreter there is none. */
static enum jit by_optimizer(const struct proc_mem *mem, const struct pye_pylayout *l,
			     uint64_t object)
{
	uint16_t ob_type = l->type_dealloc - OB_TYPE_BEFORE;
	uint16_t tp_name = l->type_dealloc - TP_NAME_BEFORE;
	char name[16] = "";
	uint64_t at;

	if (!object)
		return JIT_OFF;
	if (proc_mem__word(mem, object + ob_type, &at) || proc_mem__word(mem, at + tp_name, &at) ||
	    proc_mem__read_some(mem, at, name, sizeof(name)) < (ssize_t)sizeof(name))
		return JIT_UNKNOWN;
	if (!strncmp(name, "noop_optimizer", sizeof(name)))
		return JIT_OFF;
	return JIT_ON;
}

static enum jit by_flag(const struct proc_mem *mem, const struct layout *l, uint64_t addr)
{
	uint64_t object;
	uint8_t flag;

	if (l->jit_is_object)
		return proc_mem__word(mem, addr, &object) ? JIT_UNKNOWN
							  : by_optimizer(mem, &l->py, object);
	if (proc_mem__read(mem, addr, &flag, sizeof(flag)) || flag > 1)
		return JIT_UNKNOWN;
	return flag ? JIT_ON : JIT_OFF;
}

/* Is _PyRuntime there? A process that is held at its start has its code mapped first. */
static bool is_loaded(const struct proc_mem *mem, const struct interp *in,
		      struct version_debug *head)
{
	uint8_t data[64];

	return !proc_mem__read(mem, in->plan.runtime + in->bias, data, sizeof(data)) &&
	       !version_parse_debug(data, sizeof(data), head);
}

/* Where PyInterpreterState says it; 0: nowhere that is known for a structure of this size. */
static uint32_t flag_offset(const struct version_debug *head, const struct layout *l)
{
	for (size_t i = 0; i < sizeof(l->jit) / sizeof(l->jit[0]); i++)
		if (l->jit[i].is_size && l->jit[i].is_size == head->is_size)
			return l->jit[i].is_offset;
	return 0;
}

static enum jit by_environment(pid_t pid, enum jit otherwise)
{
	char value[8] = "";

	if (proc_environ(pid, "PYTHON_JIT", value, sizeof(value)) || !value[0])
		return otherwise;
	return value[0] == '0' ? JIT_OFF : JIT_ON;
}

static enum jit find_state(pid_t pid, const struct proc_mem *mem, const struct interp *in,
			   const struct layout *l)
{
	struct version_debug head;
	enum jit worst = JIT_OFF;
	uint32_t offset;
	uint64_t is = 0;

	if (!is_loaded(mem, in, &head))
		return by_environment(pid, JIT_OFF);
	offset = flag_offset(&head, l);
	if (!in->interpreters || proc_mem__word(mem, in->interpreters, &is))
		return by_environment(pid, JIT_UNKNOWN);
	if (!is) /* nearly all builds leave it off unless told otherwise */
		return by_environment(pid, JIT_OFF);
	if (!offset)
		return by_environment(pid, JIT_UNKNOWN);
	for (int i = 0; is && i < INTERPRETERS_MAX && worst == JIT_OFF; i++) {
		worst = by_flag(mem, l, is + offset);
		if (proc_mem__word(mem, is + in->layout.is_next, &is))
			break;
	}
	return worst;
}

int interp__check_jit(pid_t pid, const struct interp *in, struct err *e)
{
	const struct layout *l = layout_find(in->plan.minor, in->plan.free_threaded);
	auto_fn(proc_mem__close) struct proc_mem mem = { .fd = -1 };
	enum jit state;
	int err;

	if (!in->has_jit || !l)
		return 0;
	err = proc_mem__open(pid, &mem);
	if (err)
		return err_set(e, err == -ESRCH ? -PYE_ETARGET : err, "cannot read PID %d: %s", pid,
			       err_str(err));
	state = find_state(pid, &mem, in, l);
	if (state == JIT_OFF)
		return 0;
	err_set(e, 0,
		state == JIT_ON ? "its JIT is active: probes would miss calls"
				: "it was built with a JIT, and whether that is active cannot be "
				  "told: probes would miss calls");
	err_hint(e, "run it with PYTHON_JIT=0");
	return -PYE_EPLAN;
}
