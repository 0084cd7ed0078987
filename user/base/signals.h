/* SPDX-License-Identifier: Apache-2.0 */
/* What pyebpf does to signals that whoever started it had set otherwise, and how a command that it starts gets that back. */
#ifndef PYEBPF_BASE_SIGNALS_H
#define PYEBPF_BASE_SIGNALS_H

/**
 * signals_begin - first of all in main()
 *
 * Children can be waited for, and SIGINT ends a run: a shell without job control ignores it in what it starts with "&", and
 * "kill -INT" would be lost on us. What would be larger than a file may be (ulimit -f) is an error, EFBIG. Other signals that
 * are ignored stay so; that is what nohup is for. SIGUSR1 waits from here on for those whose business it is (run_signals()): it does
 * not end a pyebpf that still places its probes.
 */
void signals_begin(void);

/* signals_inherited - in a child that executes a command: as whoever started pyebpf had them. */
void signals_inherited(void);

#endif
