// SPDX-License-Identifier: Apache-2.0
#define LOG_DOMAIN "output"
#include "cmd/outputs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "export/summary.h"

#define SUMMARY_TOP 10
#define NUMBERS_MAX 100000u

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n > m && !strcmp(s + n - m, end);
}

static int default_name(const struct outputs *o, const char *comm, uint32_t pid,
			const char *extension, char *out)
{
	return outfile_default_name(out, PATH_MAX, o->verb, comm, pid, wall_ns(), extension);
}

static int too_long(struct err *e)
{
	return err_set(e, -PYE_EOUTPUT, "the name of the output is too long");
}

static int check(const struct outputs *o, struct err *e)
{
	int err = o->capture_only ? 0 : emit_check(o->opts, o->output, o->format, e);

	return err ? err : outfile_check(o->capture, o->opts->force, e);
}

int outputs_choose(struct outputs *o, const char *comm, uint32_t pid, struct err *e)
{
	const char *path = o->opts->path;
	int err;

	o->capture_only = path && ends_with(path, ".pyebpf") && !o->opts->format;
	if ((o->capture_only || o->keep_capture) && o->in && input_renames(o->in))
		return err_set(
			e, -PYE_EUSAGE,
			"a capture keeps names as they are; leave renaming to pyebpf convert");
	if (o->capture_only) {
		if (snprintf(o->capture, sizeof(o->capture), "%s", path) >= (int)sizeof(o->capture))
			return too_long(e);
		return check(o, e);
	}
	err = emit_format(o->opts, path, &o->format, e);
	if (err)
		return err;
	if (path)
		err = snprintf(o->output, sizeof(o->output), "%s", path) >= (int)sizeof(o->output);
	else
		err = default_name(o, comm, pid, o->format->extensions[0], o->output);
	if (!err && path && !strcmp(path, "-"))
		err = default_name(o, comm, pid, ".pyebpf", o->capture);
	else if (!err)
		err = emit_path_with(o->capture, sizeof(o->capture), o->output, ".pyebpf");
	return err ? too_long(e) : check(o, e);
}

/* "name.json.gz" becomes "name-2.json.gz". */
static int with_number(const char *path, unsigned int number, char *out)
{
	char bare[PATH_MAX], end[PATH_MAX];
	int err = emit_path_with(bare, sizeof(bare), path, "");

	if (err ||
	    snprintf(end, sizeof(end), "-%u%s", number, path + strlen(bare)) >= (int)sizeof(end))
		return -ENAMETOOLONG;
	return emit_path_with(out, PATH_MAX, path, end);
}

/* Is there something by one of its names? A folder that is gone, say, has no other number either. */
static bool is_taken(const struct outputs *o)
{
	struct stat st;

	return !lstat(o->capture, &st) || (!o->capture_only && !lstat(o->output, &st));
}

int outputs_number(const struct outputs *from, unsigned int *number, struct outputs *to,
		   struct err *e)
{
	int err;

	*to = *from;
	/* stdout takes one output: the others stay captures */
	to->capture_only |= !strcmp(from->output, "-");
	for (;; ++*number) {
		err = with_number(from->capture, *number, to->capture);
		if (!err && !to->capture_only)
			err = with_number(from->output, *number, to->output);
		if (err)
			return too_long(e);
		err = check(to, e);
		if (!err || !is_taken(to) || *number >= NUMBERS_MAX)
			return err;
	}
}

int outputs_produce(const struct outputs *o, struct outfile *capture, bool summary, struct err *e)
{
	struct aggregate_opts agg_opts = { .raw = o->opts->raw, .full_files = o->opts->full_files };
	struct aggregate *agg = NULL;
	struct emit_how how = { .in = o->in, .asks = o->asks, .parts_behind = o->parts_behind };
	struct emit_result result = { 0 };
	int err = 0, fd = outfile__fd(capture);

	if (summary && !o->quiet)
		err = aggregate__new(&agg, &agg_opts);
	if (err)
		return err;
	how.agg = agg;
	how.progress = agg != NULL;
	if (lseek(fd, 0, SEEK_SET) < 0)
		err = -errno;
	else if (agg || !o->capture_only)
		err = emit_capture(fd, &how, o->opts, o->output, o->capture_only ? NULL : o->format,
				   &result, e);
	if (!err && agg)
		summary_print(stderr, agg, SUMMARY_TOP);
	else if (err == -EINTR) /* the capture is whole */
		err = o->capture_only ? 0 : -PYE_EOUTPUT;
	if (!err && !o->quiet && o->capture_only)
		emit_report_capture(stderr, o->capture, (uint64_t)lseek(fd, 0, SEEK_END));
	else if (!err && !o->quiet)
		emit_report(stderr, o->output, o->format, &result);
	aggregate__free(agg);
	if (!err && o->show_fd)
		*o->show_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	return err;
}

void outputs_discard(const struct outputs *o, struct outfile *capture, int err)
{
	if (err && !o->capture_only)
		outputs_say_kept(o, "the capture is kept in");
	else if (!o->capture_only && !o->keep_capture)
		outfile__remove(capture);
}

int outputs_failed(const struct outputs *o, struct outfile *capture, int err, struct err *e)
{
	struct stat st;

	if (!(err_is_full(-err) || err == -EIO || err == -EFBIG) || e->what[0] ||
	    fstat(outfile__fd(capture), &st) || !st.st_size) {
		outfile__remove(capture);
		return err;
	}
	outputs_say_kept(o, "what was captured until the error is in");
	return err_set(e, err, "cannot write %s: %s", o->capture, err_str(err));
}

void outputs_say_kept(const struct outputs *o, const char *why)
{
	char shown[512];

	text_escape(shown, sizeof(shown), o->capture, strlen(o->capture));
	if (access(o->capture, F_OK))
		log_warn("the capture %s was removed meanwhile", shown);
	else
		log_warn("%s %s", why, shown);
}
