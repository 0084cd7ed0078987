/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a window's file says about itself: the time, the duration and the comments of a pprof file. Files can come
 * from anywhere, so all is bounded. Field numbers: pprof's profile.proto (string_table 6, time_nanos 9,
 * duration_nanos 10, comment 13).
 */
#ifndef PYEBPF_STORE_HEAD_H
#define PYEBPF_STORE_HEAD_H

#include <stdint.h>

#include "store/store.h"

struct head {
	int64_t start_ns, end_ns;
	struct store_label labels[STORE_LABELS_MAX]; /* sorted by name, names distinct */
	uint32_t label_cnt;
	char *text; /* owns the strings */
};

/**
 * head_read - read the head of a window
 * @fd:  of the file, at its beginning; borrowed
 * @out: release with head_done() in any case
 *
 * Return: 0; -PYE_EFORMAT: no pprof in gzip, damaged, or without STORE_SERVICE; -ENOMEM.
 */
int head_read(int fd, struct head *out);
void head_done(struct head *h);

/* head_comment - the comment that holds a label, as the profile's writer has to put it. Cut to @size. */
void head_comment(const struct store_label *label, char *out, uint32_t size);

#endif
