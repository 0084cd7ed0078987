/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of a run of `trace`: a capture and what is made of it. A run has several when it is split
 * or when a flight recorder is written while it goes on; those are numbered, and made by a child
 * process, so that reading the rings never waits for them.
 */
#ifndef PYEBPF_CMD_OUTPUTS_H
#define PYEBPF_CMD_OUTPUTS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/outfile.h"
#include "cmd/emit.h"

/* Names; the options are borrowed. */
struct outputs {
	const struct output_opts *opts;
	const struct input_opts *in; /* how names are shown; NULL: as they are */
	const char *verb; /* of default names: pyebpf-VERB-COMM-PID-TIME */
	bool keep_capture, quiet;
	unsigned int asks; /* outputs_produce() ends when run_is_to_end() so often; 0: not */
	unsigned int
		parts_behind; /* the last number that was given to other files: those of further parts come behind it */
	bool capture_only; /* the capture is the output */
	int *show_fd; /* gets another descriptor of the capture, for show_capture(); NULL: not wanted */
	const struct exporter *format;
	char output[PATH_MAX];
	char capture[PATH_MAX];
};

/**
 * outputs_choose - names from the options
 * @o:         opts, verb, keep_capture and quiet are set
 * @comm, @pid: for a name of our own
 *
 * Return: 0; -PYE_EUSAGE or -PYE_EOUTPUT with a sentence: nothing is to be done then.
 */
int outputs_choose(struct outputs *o, const char *comm, uint32_t pid, struct err *e);

/**
 * outputs_number - the same names with "-N" before their extensions
 * @number: the first to try; others follow where files of that name exist. Set to the one that it is
 *
 * Return: 0, or -PYE_EOUTPUT with a sentence.
 */
int outputs_number(const struct outputs *from, unsigned int *number, struct outputs *to,
		   struct err *e);

/**
 * outputs_produce - from a capture that is complete to its output, with a summary and the file's name
 *
 * @summary: print the summary, too
 *
 * Return: 0, also when it was to end and the capture is the output, which lacks nothing but the summary then; -PYE_EOUTPUT when it
 * was to end; another negative number; with a sentence.
 */
int outputs_produce(const struct outputs *o, struct outfile *capture, bool summary, struct err *e);

/* outputs_discard - remove the capture if nobody wants it; when producing has failed (@err), say where
 * it is. */
void outputs_discard(const struct outputs *o, struct outfile *capture, int err);

/* outputs_failed - the run has failed: the capture is removed, but where that is because nothing could be written any more: it can
 * be read as far as it goes, and is named in @e. Return: @err. */
int outputs_failed(const struct outputs *o, struct outfile *capture, int err, struct err *e);

/* outputs_say_kept - the name of a capture that is kept after all. */
void outputs_say_kept(const struct outputs *o, const char *why);

struct capw;

/* Files of a run that goes on: at most one child makes them, the others wait in a queue. */
struct background;

int background__new(struct background **out);

/**
 * background__dump - write what a flight recorder holds, in a child that has its memory as it is now
 *
 * Not while another is being made. Return: 0, or -errno of fork().
 */
int background__dump(struct background *b, const struct outputs *o, struct capw *w);

/* background__part - make the output of a part whose capture is complete; @capture is owned by it from
 * then on. 0 or -ENOMEM. */
int background__part(struct background *b, const struct outputs *o, struct outfile *capture);

/* background__reap - after SIGCHLD: see what has ended, begin the next. Return: whether it is idle. */
bool background__reap(struct background *b);

/* background__wait - until all are made. run_is_to_end() takes one off *@asks; where that is 0 what is not made yet is left as
 * captures. Return: how many failed in all, these included. */
unsigned int background__wait(struct background *b, unsigned int *asks);

/* background__free - forgets the queue; NULL is fine. */
void background__free(struct background *b);

#endif
