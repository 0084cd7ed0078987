/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must not be killed half-way. The kernel gives up a probe that it places or takes out when the process that
 * asked for it gets SIGKILL meanwhile, and then leaves the instruction in the target's code ("uprobe: failed to
 * unregister, leaking uprobe" in its log). So another process asks, which has our memory and our files: who
 * kills us does not kill it.
 */
#ifndef PYEBPF_CAPTURE_APART_H
#define PYEBPF_CAPTURE_APART_H

/**
 * apart - call a function in a process that shares memory and descriptors with us, and wait for its end
 *
 * When we are killed it goes on, so it must take no lock that we could hold. No signal reaches it. Where there
 * can be no more processes the function is called here.
 */
void apart(void (*call)(void *arg), void *arg);

#endif
