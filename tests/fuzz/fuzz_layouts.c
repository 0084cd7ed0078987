// SPDX-License-Identifier: Apache-2.0
/*
 * What an interpreter's file or memory says of itself, over any bytes: _Py_DebugOffsets, the version
 * among strings, and the characters of a str.
 */
#include "base/text.h"
#include "cpython/layouts.h"
#include "cpython/pystr.h"
#include "cpython/version.h"
#include "fuzz.h"

static void check_debug(const struct layout *l, const uint8_t *data, size_t size)
{
	struct pye_pylayout py = l->py;
	struct version_debug head;
	const char *why = NULL;

	version_parse_debug(data, size, &head);
	if (layout_apply_debug(l, data, size, &py, &why)) {
		demand(why && !memcmp(&py, &l->py, sizeof(py)));
		return;
	}
	demand(py.f_code + 8 <= PYE_FRAME_READ && py.f_owner < PYE_FRAME_READ);
	demand(py.f_previous != py.f_code && py.ts_next != py.ts_interp);
}

static void check_version(const uint8_t *data, size_t size)
{
	char out[VERSION_TEXT_SIZE];

	for (unsigned int minor = 6; minor <= 15; minor++)
		if (version_find_text((const char *)data, size, minor, out, sizeof(out)) >= 0)
			demand(out[0] == '3' && strlen(out) < sizeof(out));
}

/* The first bytes choose state, length and room. */
static void check_str(const struct pye_pylayout *l, const uint8_t *data, size_t size)
{
	static char out[PYSTR_SIZE];
	uint32_t state, cp;
	uint16_t room, more;
	size_t n;

	if (size < 8)
		return;
	memcpy(&state, data, 4);
	memcpy(&room, data + 4, 2);
	memcpy(&more, data + 6, 2);
	room = (uint16_t)(PYSTR_SIZE_MIN + room % (PYSTR_SIZE - PYSTR_SIZE_MIN + 1));
	n = pystr_decode(l, state, more, data + 8, size - 8, out, room);
	demand(n < room && strlen(out) == n);
	for (size_t at = 0; at < n;) {
		size_t step = text_next(out + at, n - at, &cp);

		demand(cp != 0xfffd || step == 3);
		at += step;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct layout *const all[] = { &layout_3_6,  &layout_3_13,	 &layout_3_13t,
						    &layout_3_14, &layout_3_14t, &layout_3_15t };
	const struct layout *l;

	if (!size)
		return 0;
	l = all[data[0] % (sizeof(all) / sizeof(all[0]))];
	data++;
	size--;
	check_debug(l, data, size);
	check_version(data, size);
	check_str(&l->py, data, size);
	return 0;
}
