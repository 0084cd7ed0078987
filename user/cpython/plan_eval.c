// SPDX-License-Identifier: Apache-2.0
#include "cpython/planner.h"

int plan_eval(struct planner *p)
{
	return err_set(p->e, -PYE_EPLAN, "3.%u: not planned yet", p->plan->minor);
}
