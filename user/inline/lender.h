/* SPDX-License-Identifier: Apache-2.0 */
/* Who runs before others lends that to a thread of another process for as long as it waits for it. */
#ifndef PYEBPF_INLINE_LENDER_H
#define PYEBPF_INLINE_LENDER_H

#include <stdint.h>
#include <sys/types.h>

struct lender;

/* Those of SCHED_FIFO: ours where we are in a hurry, and of those who do something for us then. */
#define LENDER_PRIORITY 2
#define LENT_PRIORITY	1

/*
 * lender__lend - a thread gets a CPU before others, for @turn_ns at most: to be called again until what is waited for has come. One at
 * a time: another one when the turn is over.
 * @l: of one thread of ours; NULL: made for it. Nothing happens where it cannot be: with one CPU, without the permission, or while
 *     another one lends.
 * @other: of the same thread of ours, which lends no more then; or NULL
 */
void lender__lend(struct lender **l, struct lender *other, pid_t tid, uint32_t turn_ns);

/* lender__rest - its turn is over; until it is needed again others can lend. NULL: nothing */
void lender__rest(struct lender *l);
void lender__free(struct lender *l); /* NULL: nothing */

#endif
