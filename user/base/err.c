// SPDX-License-Identifier: Apache-2.0
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int err_set(struct err *e, int code, const char *fmt, ...)
{
	va_list ap;

	if (!e)
		return code;
	va_start(ap, fmt);
	vsnprintf(e->what, sizeof(e->what), fmt, ap);
	va_end(ap);
	e->hint[0] = '\0';
	return code;
}

void err_hint(struct err *e, const char *fmt, ...)
{
	va_list ap;

	if (!e)
		return;
	va_start(ap, fmt);
	vsnprintf(e->hint, sizeof(e->hint), fmt, ap);
	va_end(ap);
}

const char *err_str(int code)
{
	switch (-code) {
#define X(name, number, text) \
	case name:            \
		return text;
		PYE_ERRORS(X)
#undef X
	default:
		return strerror(-code);
	}
}

int err_exit_code(int code)
{
	switch (-code) {
	case 0:
		return 0;
	case PYE_EUSAGE:
	case PYE_EFORMAT:
		return 2;
	case PYE_EPRIV:
	case EPERM:
	case EACCES:
		return 3;
	case PYE_ENOTPYTHON:
	case PYE_ETARGET:
	case ESRCH:
		return 4;
	case PYE_EVERSION:
	case PYE_EPLAN:
	case PYE_EKERNEL:
		return 5;
	case PYE_EOUTPUT:
	case ENOSPC:
	case EROFS:
		return 6;
	case PYE_ELOSS:
		return 7;
	default:
		return 1;
	}
}
