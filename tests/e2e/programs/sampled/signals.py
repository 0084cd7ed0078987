# SPDX-License-Identifier: Apache-2.0
"""Waits for signals, in each way that Python has."""
import signal


def with_a_timeout():
    signal.sigtimedwait([signal.SIGUSR1], 0.3)


def for_one_of_a_set():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    signal.sigwait([signal.SIGALRM])
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])


def for_any():
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    signal.pause()


signal.signal(signal.SIGALRM, lambda *_: None)
with_a_timeout()
for_one_of_a_set()
for_any()
