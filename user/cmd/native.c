// SPDX-License-Identifier: Apache-2.0
/* Native frames of samples: what has to be read before privileges go, and what is said at the end. */
#define LOG_DOMAIN "record"
#include <errno.h>

#include "abi/sample.h"
#include "base/log.h"
#include "cmd/session_priv.h"
#include "symbol/symbols.h"

int native_begin(struct session *s, struct err *e)
{
	int err;

	if (!s->opts.native)
		return 0;
	err = symbols__new(&s->symbols);
	if (err)
		return err_set(e, err, "no memory for symbols");
	if (!(s->opts.native & PYE_TAKE_KERNEL))
		return 0;
	err = symbols__read_kernel(s->symbols);
	if (err == -ENOMEM)
		return err_set(e, err, "no memory for the kernel's symbols");
	if (err)
		log_warn("the kernel's functions have no names (%s); "
			 "they need CAP_SYSLOG, or sysctl kernel.kptr_restrict=0",
			 err_str(err));
	return 0;
}

void native_report(const struct session *s)
{
	const struct assembler_natives *n = assembler__natives(s->as);

	if (!(s->opts.native & PYE_TAKE_USER) || !n->samples)
		return;
	if (n->broken || n->unreadable || n->deep)
		log_info(
			"of %llu native stacks %llu broke off at code without frame pointers, %llu "
			"at a page that was not in memory, %llu were too deep: their outer native "
			"frames are missing, the Python frames are not",
			(unsigned long long)n->samples, (unsigned long long)n->broken,
			(unsigned long long)n->unreadable, (unsigned long long)n->deep);
}

static bool is_in_loop(enum probe_kind kind)
{
	return kind != PROBE_CLEAR && kind != PROBE_CODE_DEALLOC && kind != PROBE_GEN_CLOSE &&
	       kind != PROBE_GEN_CLOSED;
}

void native_loop(const struct interp *in, struct assembler_loop *out)
{
	const size_t max = sizeof(out->offsets) / sizeof(out->offsets[0]);
	uint32_t seen = 0;
	size_t cnt = 0;

	out->dev = in->dev;
	out->ino = in->ino;
	/* first one of each kind, then what there is room for */
	for (int again = 0; again < 2; again++) {
		for (uint32_t i = 0; i < in->plan.site_cnt && cnt < max; i++) {
			const struct probe_site *site = &in->plan.sites[i];
			bool first = !(seen & 1u << site->kind);

			if (!is_in_loop(site->kind) || first == again)
				continue;
			seen |= 1u << site->kind;
			out->offsets[cnt++] = site->offset;
		}
	}
}
