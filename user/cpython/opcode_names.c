// SPDX-License-Identifier: Apache-2.0
#include "cpython/opcode_names.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

const struct opcode_name *opcode_names(unsigned int minor)
{
	static const struct opcode_name *const known[] = {
		[11] = opcode_names_3_11, [12] = opcode_names_3_12, [13] = opcode_names_3_13,
		[14] = opcode_names_3_14, [15] = opcode_names_3_15,
	};

	return minor < sizeof(known) / sizeof(*known) ? known[minor] : NULL;
}

static int choose(const struct opcode_name *names, unsigned int minor, const char *name, size_t len,
		  uint8_t *chosen, struct err *e)
{
	for (; len && *name == ' '; len--)
		name++;
	while (len && name[len - 1] == ' ')
		len--;
	if (!len)
		return err_set(e, -PYE_EUSAGE, "a name of an opcode is empty");
	for (size_t i = 0; i < OPCODE_CNT; i++) {
		if (!names[i].name || strlen(names[i].name) != len ||
		    strncasecmp(names[i].name, name, len) != 0)
			continue;
		chosen[i] = 1;
		for (size_t k = 0; k < OPCODE_CNT; k++)
			if (names[k].name && names[k].base == i)
				chosen[k] = 1;
		return 0;
	}
	if (len == 3 && !strncasecmp(name, "all", len))
		return err_set(e, -PYE_EUSAGE, "--opcodes all stands alone");
	err_set(e, -PYE_EUSAGE, "CPython 3.%u has no opcode %.*s", minor,
		(int)(len < 64 ? len : 64), name);
	err_hint(e, "python3 -c 'import opcode; print(*opcode.opmap)' has their names");
	return -PYE_EUSAGE;
}

int opcode_choose(const struct opcode_name *names, unsigned int minor, const char *list,
		  uint8_t *chosen, struct err *e)
{
	int err = 0;

	memset(chosen, 0, OPCODE_CNT);
	if (!strcasecmp(list, "all")) {
		memset(chosen, 1, OPCODE_CNT);
		return 0;
	}
	for (;;) {
		size_t len = strcspn(list, ",");

		err = choose(names, minor, list, len, chosen, e);
		if (err || !list[len])
			return err;
		list += len + 1;
	}
}
