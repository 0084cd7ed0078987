/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a capture file and pushing it, in time order over all threads, into a consumer. Needs no
 * privilege and no live process. The file is hostile input: sizes are capped, indexes checked.
 */
#ifndef PYEBPF_DECODE_DECODE_H
#define PYEBPF_DECODE_DECODE_H

#include "base/err.h"
#include "profile/trace.h"

/* decode_is_capture - whether a file that can seek begins as a capture does, at its beginning or not. */
bool decode_is_capture(int fd);

/**
 * decode_file - push a whole capture
 * @fd:       at its beginning, seekable or a pipe
 * @consumer: its members are called with @self
 * @e:        sentence with the file offset on a malformed file; may be NULL
 *
 * A file that was cut (killed writer, full disk) is read to its last whole chunk; end() then gets
 * complete = false, with the counters of that chunk. A chunk that is damaged in between is left out:
 * the threads that lost something show a gap, and it is counted as LOSS_USER. In both cases the result
 * is 0 and @e holds the sentence that says so; it is "" when all is well.
 *
 * Memory is bounded by the chunks whose times overlap (at most 128 MiB of them), not by the file.
 * Names of a hostile file may be bytes that are no UTF-8.
 *
 * Return: 0; -PYE_EFORMAT for what is no capture or damaged before its first chunk; -ENOMEM; what
 * read() or the consumer returned.
 */
int decode_file(int fd, const struct trace_consumer *consumer, void *self, struct err *e);

#endif
