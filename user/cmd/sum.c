// SPDX-License-Identifier: Apache-2.0
#include "cmd/sum.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/outfile.h"
#include "base/text.h"
#include "export/folding.h"

static void free_aggregate(struct aggregate **agg)
{
	aggregate__free(*agg);
}

int sum__init(struct sum *s, bool raw, bool lines, bool full_files)
{
	const struct aggregate_opts opts = {
		.raw = raw, .full_files = full_files, .lines = lines, .max_stacks = SUM_STACKS_MAX
	};

	*s = (struct sum){ .raw = raw, .lines = lines };
	return aggregate__new(&s->all, &opts);
}

void sum__done(struct sum *s)
{
	aggregate__free(s->all);
	s->all = NULL;
}

static int add_part(struct sum *s, const struct aggregate *one, const char *name, struct err *e)
{
	char shown[512];

	if (e->what[0])
		log_warn("%s: %s", text_escape(shown, sizeof(shown), name, strlen(name)), e->what);
	if (s->cnt && !aggregate__result(s->all)->sample_ns != !aggregate__result(one)->sample_ns)
		return err_set(e, -PYE_EFORMAT,
			       "%.200s holds %s, and those before do not: they do not add up", name,
			       aggregate__result(one)->sample_ns ? "samples" : "calls");
	s->cnt++;
	return aggregate__merge(s->all, aggregate__result(one));
}

int sum__take(struct sum *s, sum_fn fn, void *ctx, const char *name, struct err *e)
{
	const struct aggregate_opts agg_opts = { .raw = s->raw, .lines = s->lines, .part = true };
	auto_fn(free_aggregate) struct aggregate *one = NULL;
	int err = aggregate__new(&one, &agg_opts);

	err = err ? err : fn(ctx, &aggregate_consumer, one, e);
	return err ? err : add_part(s, one, name, e);
}

int sum__add(struct sum *s, int fd, const char *name, const struct input_opts *opts, struct err *e)
{
	const struct aggregate_opts agg_opts = { .raw = s->raw, .lines = s->lines, .part = true };
	auto_fn(free_aggregate) struct aggregate *one = NULL;
	int err = aggregate__new(&one, &agg_opts);

	err = err ? err : input_read(fd, opts, &aggregate_consumer, one, e);
	if (err == -PYE_EFORMAT)
		return input_explain(name, e);
	return err ? err : add_part(s, one, name, e);
}

int sum__close(struct sum *s)
{
	return aggregate__close(s->all);
}

int sum_format(const struct output_opts *output, const struct exporter **format, struct err *e)
{
	*format = output->format ? NULL : exporter_by_path(output->path);
	if (*format || output->format)
		return emit_format(output, output->path, format, e);
	*format = &export_pprof;
	return 0;
}

static int write_out(void *ctx, const void *data, size_t len)
{
	return outfile__write(ctx, data, len);
}

static void note(void *ctx, const char *sentence)
{
	(void)ctx;
	log_warn("%s", sentence);
}

static int write_format(const struct sum *s, const struct exporter *format, void *self)
{
	const struct agg_result *r = aggregate__result(s->all);

	if (!format->folds)
		return aggregate_push(r, &format->consumer, self);
	folding__give(self, s->all);
	return format->consumer.end(self, &r->totals);
}

static int check_format(const struct sum *s, const struct exporter *format, struct err *e)
{
	if (format->folds || aggregate__result(s->all)->sample_ns)
		return 0;
	return err_set(e, -PYE_EUSAGE,
		       "%s shows calls in time, and sums have none; there are pprof, "
		       "collapsed, svg, pstats and text",
		       format->name);
}

int sum__stream(const struct sum *s, const struct exporter *format, bool plain,
		int (*write)(void *ctx, const void *data, size_t len), void *ctx, struct err *e)
{
	const struct export_opts opts = { .raw = s->raw, .plain = plain };
	struct export_out out = { .write = write, .note = note, .ctx = ctx };
	void *self = NULL;
	int err = check_format(s, format, e);

	err = err ? err : exporter__new(format, &self, &opts, &out);
	err = err ? err : write_format(s, format, self);
	exporter__free(format, self);
	return err;
}

int sum__write(const struct sum *s, const struct output_opts *output, const struct exporter *format,
	       struct emit_result *result, struct err *e)
{
	auto_fn(outfile__freep) struct outfile *file = NULL;
	int err = check_format(s, format, e);

	err = err ? err : outfile__open(&file, output->path, OUTFILE_ATOMIC, output->force, e);
	if (err)
		return err;
	err = sum__stream(s, format, emit_is_plain(output->path), write_out, file, e);
	if (!err && s->tail.fn)
		err = s->tail.fn(s->tail.ctx, write_out, file);
	if (err)
		return err == -ENOMEM ? err : outfile__explain(file, e);
	err = outfile__commit(file, e);
	result->bytes = outfile__bytes(file);
	result->part_cnt = 1;
	return err;
}
