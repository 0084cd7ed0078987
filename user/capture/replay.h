/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recorded rings: the batches of a source in a file, and a source that hands them out again, so that what
 * came after the rings can be repeated without a kernel, a target or a privilege. For tests and for looking
 * into a problem; made and read on the same machine, so numbers are as the machine has them.
 *
 * The file: the magic, then items, each a struct replay_item and its bytes, padded to 8. Beside batches it
 * holds what user space told the assembler in between, in the order in which it did.
 */
#ifndef PYEBPF_CAPTURE_REPLAY_H
#define PYEBPF_CAPTURE_REPLAY_H

#include <stdint.h>
#include <stdio.h>

#include "abi/pylayout.h"
#include "capture/capture.h"

#define REPLAY_MAGIC "PYERING1"
#define REPLAY_BYTES (1u << 30) /* of a file that is read, at most */

enum replay_kind {
	REPLAY_BATCH = 1, /* as the ring had it */
	REPLAY_CONTROL = 2, /* struct pye_proc_rec: a fork, an exec, an end */
	REPLAY_PROCESS = 3, /* struct replay_process */
	REPLAY_FINAL = 4, /* struct replay_final */
	REPLAY_LOSSES = 5, /* u64 for each enum trace_loss, as the kernel counted */
};

struct replay_item {
	uint32_t kind, len;
	uint32_t ring, round; /* of a batch */
};

/* For assembler__final() */
struct replay_final {
	uint32_t tix, seq;
	uint64_t until_ns;
};

/* A process as it was looked at when its recording began. */
struct replay_process {
	uint32_t pix, pid;
	uint64_t start_ns;
	struct pye_pylayout layout;
	uint8_t late, pad[3];
	char comm[64], exe[256], python[16];
};

/* replay_begin, replay_put - write the beginning, an item; @data is not kept. 0 or a negative errno. */
int replay_begin(FILE *out);
int replay_put(FILE *out, const struct replay_item *item, const void *data);

struct replay;

/* What is no batch: handed over when the source comes across it; @data is aligned to 8 bytes. */
typedef int (*replay_fn)(void *ctx, const struct replay_item *item, const void *data);

/**
 * replay__open - read a file of recorded rings
 * @fd:    read to its end at once
 * @other: gets what lies between the batches, may be NULL; a negative number ends the replay with it
 *
 * A file that was cut ends after its last whole item.
 *
 * Return: 0; -PYE_EFORMAT; -EFBIG; -ENOMEM; the error of read().
 */
int replay__open(struct replay **out, int fd, replay_fn other, void *ctx);
void replay__free(struct replay *r);

/* replay_ops - next() of the batches; its self is the struct replay. */
extern const struct capture_ops replay_ops;

#endif
