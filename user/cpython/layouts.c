// SPDX-License-Identifier: Apache-2.0
#define LOG_DOMAIN "cpython"
#include "cpython/layouts.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "cpython/interp.h"
#include "cpython/version.h"
#include "elf/elf_file.h"

/* One line per build whose structures differ. */
static const struct layout *const layouts[] = {
	&layout_3_6,   &layout_3_7,  &layout_3_8,   &layout_3_9,   &layout_3_10,
	&layout_3_11,  &layout_3_12, &layout_3_13,  &layout_3_13t, &layout_3_14,
	&layout_3_14t, &layout_3_15, &layout_3_15t,
};

#define LAYOUT_CNT (sizeof(layouts) / sizeof(layouts[0]))

/* Bounds of the fields that an interpreter may state: what is beyond them is a lie or damage. The limits
 * are generous (the largest known value is about a quarter of them), except for the frame, of which
 * only PYE_FRAME_READ bytes are read. */
enum field_struct {
	IN_FRAME,
	IN_CODE,
	IN_STR,
	IN_THREAD,
	IN_INTERP,
	IN_RUNTIME
};

struct field_rule {
	uint16_t field;
	uint8_t in; /* enum field_struct: fields of one structure may not overlap */
	uint8_t size;
	uint16_t limit;
};

/* clang-format off */
static const struct field_rule field_rules[] = {
	{ LAYOUT_FIELD(f_code),           IN_FRAME,   8, PYE_FRAME_READ },
	{ LAYOUT_FIELD(f_previous),       IN_FRAME,   8, PYE_FRAME_READ },
	{ LAYOUT_FIELD(f_instr),          IN_FRAME,   8, PYE_FRAME_READ },
	{ LAYOUT_FIELD(f_owner),          IN_FRAME,   1, PYE_FRAME_READ },
	{ LAYOUT_FIELD(co_filename),      IN_CODE,    8, 1024 },
	{ LAYOUT_FIELD(co_name),          IN_CODE,    8, 1024 },
	{ LAYOUT_FIELD(co_qualname),      IN_CODE,    8, 1024 },
	{ LAYOUT_FIELD(co_firstlineno),   IN_CODE,    4, 1024 },
	{ LAYOUT_FIELD(co_linetable),     IN_CODE,    8, 1024 },
	{ LAYOUT_FIELD(co_code_adaptive), IN_CODE,    2, 1024 },
	{ LAYOUT_FIELD(str_length),       IN_STR,     8, 256 },
	{ LAYOUT_FIELD(str_state),        IN_STR,     4, 256 },
	{ LAYOUT_FIELD(str_ascii_data),   IN_STR,     1, 256 },
	{ LAYOUT_FIELD(ts_next),          IN_THREAD,  8, 4096 },
	{ LAYOUT_FIELD(ts_interp),        IN_THREAD,  8, 4096 },
	{ LAYOUT_FIELD(ts_frame),         IN_THREAD,  8, 4096 },
	{ LAYOUT_FIELD(ts_thread_id),     IN_THREAD,  8, 4096 },
	{ LAYOUT_FIELD(ts_native_id),     IN_THREAD,  8, 4096 },
	{ LAYOUT_FIELD(is_next),          IN_INTERP,  8, 32768 },
	{ LAYOUT_FIELD(is_threads),       IN_INTERP,  8, 32768 },
	{ LAYOUT_FIELD(rt_interpreters),  IN_RUNTIME, 8, 32768 },
};
/* clang-format on */

#define RULE_CNT (sizeof(field_rules) / sizeof(field_rules[0]))

const struct layout *layout_find(unsigned int minor, bool free_threaded)
{
	for (size_t i = 0; i < LAYOUT_CNT; i++) {
		const struct pye_pylayout *py = &layouts[i]->py;

		if (py->minor == minor && !!(py->flags & PYE_LAYOUT_FREE_THREADED) == free_threaded)
			return layouts[i];
	}
	return NULL;
}

const struct layout_monitoring *layout_monitoring(const struct pye_pylayout *py)
{
	static const struct layout_monitoring none;
	const struct layout *l = layout_find(py->minor, py->flags & PYE_LAYOUT_FREE_THREADED);

	/* it does not say itself where these are: they move with those around them */
	if (!l || py->co_code_adaptive != l->py.co_code_adaptive ||
	    py->co_linetable != l->py.co_linetable || py->ts_native_id != l->py.ts_native_id)
		return &none;
	return &l->monitoring;
}

const char *layout_names(void)
{
	return "3.6 to 3.15";
}

static uint16_t get_field(const struct pye_pylayout *py, uint16_t field)
{
	uint16_t value;

	memcpy(&value, (const char *)py + field, sizeof(value));
	return value;
}

static void set_field(struct pye_pylayout *py, uint16_t field, uint16_t value)
{
	memcpy((char *)py + field, &value, sizeof(value));
}

static const struct field_rule *find_rule(uint16_t field)
{
	for (size_t i = 0; i < RULE_CNT; i++)
		if (field_rules[i].field == field)
			return &field_rules[i];
	return NULL;
}

static bool overlap(const struct pye_pylayout *py, const struct field_rule *a,
		    const struct field_rule *b)
{
	unsigned int at = get_field(py, a->field), bt = get_field(py, b->field);

	return a->in == b->in && at < bt + b->size && bt < at + a->size;
}

static bool any_overlap(const struct pye_pylayout *py)
{
	for (size_t i = 0; i < RULE_CNT; i++)
		for (size_t j = i + 1; j < RULE_CNT; j++)
			if (overlap(py, &field_rules[i], &field_rules[j]))
				return true;
	return false;
}

static bool plausible(const struct field_rule *rule, uint64_t value)
{
	return rule && value <= (uint64_t)(rule->limit - rule->size) && value % rule->size == 0;
}

int layout_apply_debug(const struct layout *l, const uint8_t *debug, size_t len,
		       struct pye_pylayout *out, const char **why)
{
	struct pye_pylayout py = *out;
	uint64_t value;

	for (const struct layout_debug_field *d = l->debug; d && d->position; d++) {
		if ((size_t)d->position + sizeof(value) > len) {
			*why = "its _Py_DebugOffsets are cut off";
			return -EINVAL;
		}
		memcpy(&value, debug + d->position, sizeof(value));
		if (!plausible(find_rule(d->field), value)) {
			*why = "its _Py_DebugOffsets hold an offset that cannot be";
			return -EINVAL;
		}
		if (value != get_field(&py, d->field))
			log_debug("_Py_DebugOffsets+%u says %u where %u is usual", d->position,
				  (unsigned int)value, get_field(&py, d->field));
		set_field(&py, d->field, (uint16_t)value);
	}
	if (any_overlap(&py)) {
		*why = "its _Py_DebugOffsets put two fields in one place";
		return -EINVAL;
	}
	*out = py;
	return 0;
}

/* Py_DEBUG implies Py_TRACE_REFS up to 3.7: two pointers in front of every object. */
static void shift_objects(struct pye_pylayout *py, uint16_t by)
{
	static const uint16_t fields[] = {
		LAYOUT_FIELD(f_code),	    LAYOUT_FIELD(f_previous),
		LAYOUT_FIELD(f_instr),	    LAYOUT_FIELD(f_state),
		LAYOUT_FIELD(f_gen),	    LAYOUT_FIELD(co_filename),
		LAYOUT_FIELD(co_name),	    LAYOUT_FIELD(co_firstlineno),
		LAYOUT_FIELD(co_flags),	    LAYOUT_FIELD(str_length),
		LAYOUT_FIELD(str_state),    LAYOUT_FIELD(str_ascii_data),
		LAYOUT_FIELD(str_data),	    LAYOUT_FIELD(type_dealloc),
		LAYOUT_FIELD(co_linetable), LAYOUT_FIELD(bytes_size),
		LAYOUT_FIELD(bytes_data),
	};

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		set_field(py, fields[i], (uint16_t)(get_field(py, fields[i]) + by));
}

/* An interpreter whose structures do not hold its lock has it among its variables. */
static bool lock_is_apart(const struct pye_pylayout *py)
{
	return py->is_gil == PYE_NO_FIELD && py->rt_gil == PYE_NO_FIELD;
}

/* Only what _Py_DebugOffsets state, and where variables lie, may differ from the table, within the rules for it. */
bool layout_vet(unsigned int minor, bool free_threaded, bool debug, const struct pye_pylayout *got)
{
	const struct layout *l = layout_find(minor, free_threaded);
	struct pye_pylayout py;

	if (!l)
		return false;
	py = l->py;
	if (debug)
		shift_objects(&py, l->trace_refs);
	for (const struct layout_debug_field *d = l->debug; d && d->position; d++) {
		uint16_t value = get_field(got, d->field);

		if (!plausible(find_rule(d->field), value) && value != get_field(&py, d->field))
			return false;
		set_field(&py, d->field, value);
	}
	if (lock_is_apart(&py)) {
		py.gil_before = got->gil_before;
		py.gil_behind = got->gil_behind;
	}
	return !(l->debug && any_overlap(&py)) && !memcmp(&py, got, sizeof(py));
}

static int check_micro(const struct layout *l, const struct probe_plan *plan,
		       const struct elf_file *elf, struct err *e)
{
	char text[VERSION_TEXT_SIZE];
	int micro;

	if (!l->least_micro || !elf)
		return 0;
	micro = version_text(elf, plan, text, sizeof(text));
	if (micro < 0 || micro >= l->least_micro)
		return 0;
	return err_set(e, -PYE_EVERSION,
		       "it is CPython %s: the structures of 3.%u before 3.%u.%u are not known",
		       text, l->py.minor, l->py.minor, l->least_micro);
}

static int apply_file(const struct layout *l, const struct probe_plan *plan,
		      const struct elf_file *elf, struct pye_pylayout *py, struct err *e)
{
	uint8_t debug[LAYOUT_DEBUG_SIZE];
	struct version_debug head;
	const char *why = NULL;

	if (!l->debug || !elf || !plan->runtime)
		return 0;
	if (elf_file__read(elf, plan->runtime, debug, sizeof(debug)) ||
	    version_parse_debug(debug, sizeof(debug), &head))
		return err_set(
			e, -PYE_EPLAN,
			"its _PyRuntime does not begin with _Py_DebugOffsets, as 3.%u's does",
			l->py.minor);
	if (head.minor != plan->minor || head.free_threaded != plan->free_threaded)
		return err_set(e, -PYE_EPLAN,
			       "its code is that of 3.%u%s, but its _Py_DebugOffsets say 3.%u%s",
			       plan->minor, plan->free_threaded ? "t" : "", head.minor,
			       head.free_threaded ? "t" : "");
	if (layout_apply_debug(l, debug, sizeof(debug), py, &why))
		return err_set(e, -PYE_EPLAN, "%s", why);
	return 0;
}

static void find_lock(const struct probe_plan *plan, const struct elf_file *elf,
		      struct pye_pylayout *py)
{
	uint64_t start, end, at = plan->tstate_current;

	if (!lock_is_apart(py) || !at || !elf || !elf_file__data(elf, at, &start, &end) ||
	    end - start > UINT32_MAX)
		return;
	py->gil_before = (uint32_t)(at - start);
	py->gil_behind = (uint32_t)(end - at);
}

int interp__layout(const struct probe_plan *plan, const struct elf_file *elf,
		   struct pye_pylayout *out, struct err *e)
{
	const struct layout *l = layout_find(plan->minor, plan->free_threaded);
	struct pye_pylayout py;
	int err;

	if (!l)
		return err_set(e, -PYE_EVERSION, "it is CPython 3.%u%s; known are %s", plan->minor,
			       plan->free_threaded ? " free-threaded" : "", layout_names());
	err = check_micro(l, plan, elf, e);
	if (err)
		return err;
	py = l->py;
	if (plan->debug)
		shift_objects(&py, l->trace_refs);
	err = apply_file(l, plan, elf, &py, e);
	if (err)
		return err;
	find_lock(plan, elf, &py);
	*out = py;
	return 0;
}
