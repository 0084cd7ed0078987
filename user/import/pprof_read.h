/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pprof's profile.proto, as it is. The parts of a profile come in any order, names after the samples that use
 * them in most files, so the input is read twice: first what names things, then the samples, each handed over as it
 * is read. Numbers of the wire format: protobuf.dev/programming-guides/encoding.
 */
#ifndef PYEBPF_IMPORT_PPROF_READ_H
#define PYEBPF_IMPORT_PPROF_READ_H

#include "import/pprof_names.h"
#include "import/source.h"

#define PPROF_VALUES_MAX 64
#define PPROF_LABELS_MAX 32 /* of a sample; more are left out */

struct pprof_label {
	uint64_t key, text; /* strings; text 0: it is a number */
	uint64_t number;
};

/* Borrowed until the callback returns. */
struct pprof_sample {
	const uint64_t *locations; /* ids, innermost first */
	uint32_t location_cnt, value_cnt, label_cnt;
	uint64_t values[PPROF_VALUES_MAX]; /* in the order of names.types */
	struct pprof_label labels[PPROF_LABELS_MAX];
};

/* Return: 0, or a negative number, which ends the reading. */
typedef int (*pprof_sample_fn)(void *ctx, const struct pprof_sample *sample);

struct pprof_reader {
	struct pprof_names names;
	/* not for callers */
	struct source *s;
	struct err *e;
	uint8_t *message;
	size_t message_cap;
	uint64_t *ids;
	uint32_t id_cnt, id_cap;
	pprof_sample_fn fn;
	void *ctx;
};

/**
 * pprof_reader__names - read everything but the samples
 * @p: initialised by this; release with pprof_reader__done() in any case
 * @s: at the beginning; borrowed as long as @p is used
 *
 * Return: 0; -PYE_EFORMAT with a sentence; -ENOMEM; what read() returned.
 */
int pprof_reader__names(struct pprof_reader *p, struct source *s, struct err *e);

/* pprof_reader__samples - then the samples. As above, or what @fn returned. */
int pprof_reader__samples(struct pprof_reader *p, pprof_sample_fn fn, void *ctx);
void pprof_reader__done(struct pprof_reader *p);

/* pprof_reader__malformed - -PYE_EFORMAT with a sentence that says where. */
int pprof_reader__malformed(const struct pprof_reader *p, const char *what);

#endif
