/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exporters: consumers of a trace that write a file. One file per format; the table is in
 * exporters.c. An exporter never learns where the trace came from.
 */
#ifndef PYEBPF_EXPORT_EXPORT_H
#define PYEBPF_EXPORT_EXPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/trace.h"

struct export_opts {
	bool raw; /* aggregates keep the profiler's own cost in */
	bool full_files; /* collapsed, svg, chrometrace, text: whole paths */
	bool merge_threads; /* collapsed, svg: of samples the threads of a process are one */
	bool plain; /* JSON as it is, not in gzip, where a format has both */
	uint64_t split_events; /* firefox: events per file, 0 = never split */
	const char *const *comments; /* pprof: its own, besides ours; NULL-terminated, or NULL */
	uint64_t max_events; /* speedscope: of a profile in time order, 0 = the default */
};

/**
 * struct export_out - where an exporter writes
 * @write: append bytes; the exporter compresses itself where its format is compressed
 * @next:  close this file and open the next part (name-2.json.gz, ...); NULL: the output cannot be
 *         split (stdout), the exporter then writes one file and says so in it
 * @note:  a sentence about the output that its reader has to know, for the terminal; may be NULL
 *
 * Return of the first two: 0 or a negative errno.
 */
struct export_out {
	void *ctx;
	int (*write)(void *ctx, const void *data, size_t len);
	int (*next)(void *ctx);
	void (*note)(void *ctx, const char *sentence);
};

/**
 * struct exporter - one format
 * @name, @aliases:  as given to --format; aliases NULL-terminated
 * @extensions:      file name ends that choose it, NULL-terminated, the first is the default one
 * @help:            one line
 * @folds:           its self begins with a struct folding: it can write an aggregate of several traces
 * @lines:           and it wants stacks told apart by the lines of samples
 * @hint:            what to do with the file, after "next: "; @ stands for its name, quoted
 * @binary:          not for a terminal
 * @missing:         why this build cannot write it, and how one gets a build that can; NULL: it can
 * @size:            bytes of the consumer's self
 * @init:            of a zeroed self; @out and @opts are borrowed for its life
 * @consumer:        end() has written everything when it returns 0
 * @done:            releases what a self holds, also one whose init failed
 */
struct exporter {
	const char *name;
	const char *const *aliases;
	const char *const *extensions;
	const char *help;
	bool folds;
	bool lines;
	const char *hint;
	bool binary;
	const char *missing;
	size_t size;
	int (*init)(void *self, const struct export_opts *opts, const struct export_out *out);
	struct trace_consumer consumer;
	void (*done)(void *self);
};

extern const struct exporter export_ndjson, export_collapsed, export_pprof, export_firefox;
extern const struct exporter export_svg, export_speedscope, export_chrometrace;
extern const struct exporter export_pstats, export_text, export_html, export_source;

/**
 * exporter__new - make the self of a format's consumer
 * @opts, @out: borrowed for its life
 *
 * Return: 0, -ENOMEM, or what the format says.
 */
int exporter__new(const struct exporter *format, void **self, const struct export_opts *opts,
		  const struct export_out *out);

/* exporter__free - NULL is fine. */
void exporter__free(const struct exporter *format, void *self);

/*
 * exporter_by_name, exporter_by_path - NULL when there is none; exporter_at - NULL past the end. A path without an
 * extension that is known can be the name of a format, too.
 */
const struct exporter *exporter_by_name(const char *name);
const struct exporter *exporter_by_path(const char *path);
const struct exporter *exporter_at(size_t index);

#endif
