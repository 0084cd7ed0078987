// SPDX-License-Identifier: Apache-2.0
#define LOG_DOMAIN "trace"
#include "cmd/limits.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "assemble/assemble.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "capfile/writer.h"

#define KEEP_MIN_NS 100000000ull
#define KEEP_MAX_NS (24ull * 3600 * 1000000000)
#define BYTES_MIN   (1u << 20)
#define FLUSH_NS    1000000000ull
#define FLUSH_PART_NS \
	(10 * FLUSH_NS) /* such parts are in memory: nothing of them is there after a SIGKILL */
#define TRIGGER_FILES_MAX 100u /* of a run: more are a way to fill a disk */
#define BYTES_MARGIN	  (64u << 10) /* of a file: a batch of records, its end */
#define RECORDS_PER_BYTE  8u /* a record takes so many times less in a capture, at least */

/* "64MB", "64MiB", "64KB" are bytes, "10M" are events: nothing tells them apart but the B. */
static int parse_split(void *field, const char *arg, struct err *e)
{
	struct limit_split *split = field;
	size_t len = strlen(arg);
	char size[32];

	*split = (struct limit_split){ 0 };
	if (len < sizeof(size) && len > 1 && arg[len - 1] == 'B') {
		len -= len > 2 && arg[len - 2] == 'i' ? 2 : 1;
		memcpy(size, arg, len);
		size[len] = '\0';
		if (!opt_size(size, &split->bytes) && split->bytes >= BYTES_MIN)
			return 0;
	} else if (!opt_unsigned(arg, &split->events)) {
		return 0;
	}
	return err_set(e, -PYE_EUSAGE, "want events (10M), or bytes with a B (64MB), at least 1MB");
}

/* "module:qualname>250ms": the last > is the one, a qualified name can hold another (<locals>). */
static int parse_trigger(void *field, const char *arg, struct err *e)
{
	struct limit_triggers *list = field;
	struct limit_trigger *t = &list->v[list->cnt];
	const char *over = strrchr(arg, '>');
	size_t len = over ? (size_t)(over - arg) : 0;

	if (list->cnt == TRIGGERS_MAX)
		return err_set(e, -PYE_EUSAGE, "more than %d triggers", TRIGGERS_MAX);
	if (!len || len >= sizeof(t->function) || opt_duration(over + 1, &t->over_ns))
		return err_set(e, -PYE_EUSAGE, "want 'module:qualname>250ms'");
	t->text = arg;
	memcpy(t->function, arg, len);
	t->function[len] = '\0';
	list->cnt++;
	return 0;
}

static int parse_overhead(void *field, const char *arg, struct err *e)
{
	uint64_t pct = 0;
	size_t len = strlen(arg);
	char digits[8] = "";

	if (len > 1 && arg[len - 1] == '%')
		len--;
	if (len < sizeof(digits))
		memcpy(digits, arg, len);
	if (opt_unsigned(digits, &pct) || !pct || pct > 95)
		return err_set(e, -PYE_EUSAGE, "want 1 to 95 percent");
	*(uint64_t *)field = pct;
	return 0;
}

#define AT(member) offsetof(struct limit_opts, member)

/* clang-format off */
const struct opt_row limit_rows[] = {
	{ 0, "max-events", "N", OPT_LIMIT, AT(max_events), NULL,
	  "stop after so many calls and returns", false, NULL },
	{ 0, "max-size", "SIZE", OPT_SIZE, AT(max_bytes), NULL,
	  "stop when the capture has so many bytes; with --split begin a new one; of a flight recorder "
	  "its memory (256M if not given)",
	  false, NULL },
	{ 0, "split", "N|SIZE", OPT_CUSTOM, AT(split), NULL,
	  "begin new files after so many events (10M) or bytes of the capture (64MB)",
	  false, parse_split },
	{ 0, "flight-recorder", "TIME", OPT_PERIOD, AT(keep_ns), NULL,
	  "keep only the last 30, 30s, 5m, in memory; they are written at the end, and into a new file "
	  "on each SIGUSR1",
	  false, NULL },
	{ 0, "max-overhead", "PCT", OPT_CUSTOM, AT(overhead_pct), NULL,
	  "each process may spend so much of its CPU time in probes: they are switched off and on in "
	  "windows, which are gaps",
	  false, parse_overhead },
	{ 0, "trigger", "FUNC>TIME", OPT_CUSTOM, AT(triggers), NULL,
	  "write the flight recorder into a new file when a call of module:qualname took longer than "
	  "250ms; can be repeated",
	  false, parse_trigger },
	{ 0 },
};
/* clang-format on */

int limits_check(const struct limit_opts *o, bool to_stdout, struct err *e)
{
	bool split = o->split.events || o->split.bytes;

	if (split && o->keep_ns)
		return err_set(e, -PYE_EUSAGE, "--split and --flight-recorder do not go together");
	if (split && to_stdout)
		return err_set(e, -PYE_EUSAGE, "--split needs files: -o - is one stream");
	if (o->keep_ns && (o->keep_ns < KEEP_MIN_NS || o->keep_ns > KEEP_MAX_NS))
		return err_set(e, -PYE_EUSAGE, "--flight-recorder: 100ms to 24h");
	if (o->triggers.cnt && !o->keep_ns)
		return err_set(e, -PYE_EUSAGE, "--trigger needs --flight-recorder TIME");
	for (unsigned int i = 0; i < o->triggers.cnt; i++)
		if (o->triggers.v[i].over_ns >= o->keep_ns)
			return err_set(
				e, -PYE_EUSAGE,
				"--flight-recorder must keep more than the call takes: %.60s",
				o->triggers.v[i].text);
	if (o->max_bytes && o->max_bytes < BYTES_MIN)
		return err_set(e, -PYE_EUSAGE, "--max-size: at least 1M");
	return 0;
}

bool limits_any(const struct limit_opts *o)
{
	return o->max_events || o->max_bytes || o->split.events || o->split.bytes || o->keep_ns ||
	       o->triggers.cnt || o->overhead_pct;
}

void limits_writer(const struct limit_opts *o, struct capw_opts *out)
{
	*out = (struct capw_opts){ .keep_ns = o->keep_ns,
				   .in_parts = o->split.events || o->split.bytes ||
					       o->split.every_ns };
	if (o->keep_ns)
		out->keep_bytes = (size_t)o->max_bytes;
}

static bool in_parts(const struct limits_run *r)
{
	const struct limit_split *split = &r->opts->split;

	return split->events || split->bytes || split->every_ns;
}

/* The next moment at which parts end, on the wall clock. */
static int64_t next_end(const struct limit_split *split, int64_t now)
{
	int64_t every = (int64_t)split->every_ns, into = (now - (int64_t)split->offset_ns) % every;

	return now + every - (into < 0 ? into + every : into);
}

static void flush(struct limits_run *r, uint64_t now)
{
	struct trace_totals totals;

	r->totals(r->ctx, now, &totals);
	/* a full disk is reported at the end, with the number of events it cost */
	capw__flush(r->capw, &totals);
}

/* Will the file be larger than @max with what is still to come into it? */
static bool too_large(struct limits_run *r, uint64_t max, uint64_t to_come)
{
	uint64_t margin = BYTES_MARGIN + to_come;

	if (capw__bytes(r->capw) + capw__pending(r->capw) + margin < max)
		return false;
	/* what is pending takes less in the file: how much less shows when it is there */
	if (capw__pending(r->capw))
		flush(r, now_ns());
	return capw__bytes(r->capw) + margin >= max;
}

bool limits_full(struct limits_run *r)
{
	const struct limit_opts *o = r->opts;

	if (o->max_events && capw__written(r->capw) >= o->max_events)
		return true;
	return o->max_bytes && !o->keep_ns && !in_parts(r) &&
	       too_large(r, o->max_bytes, r->waiting(r->ctx) / RECORDS_PER_BYTE);
}

static bool part_is_full(struct limits_run *r)
{
	const struct limit_opts *o = r->opts;
	uint64_t max = o->split.bytes;

	if (o->split.every_ns) {
		int64_t left = r->part_end_ns - wall_ns();

		/* more than a whole part: the clock was set back */
		return left <= 0 || left > (int64_t)o->split.every_ns;
	}
	if (o->split.events && capw__written(r->capw) - r->part_first >= o->split.events)
		return true;
	if (o->max_bytes && (!max || o->max_bytes < max))
		max = o->max_bytes;
	return max && too_large(r, max, 0);
}

void limits_part(struct limits_run *r)
{
	const struct limit_files *files = r->files;
	struct trace_totals totals;
	int fd;

	if (!in_parts(r) || r->full || !part_is_full(r))
		return;
	fd = files->next_part(files->ctx);
	if (fd < 0) {
		r->full = true; /* what is in the rings still goes into this file */
		return;
	}
	if (r->opts->split.every_ns)
		capw__set_clock(r->capw, now_ns(), wall_ns());
	r->totals(r->ctx, now_ns(), &totals);
	/* a full disk is reported at the end, with the number of events it cost */
	capw__next_part(r->capw, fd, &totals);
	r->part_first = capw__written(r->capw);
	r->part_ns = totals.end_ns;
	if (r->opts->split.every_ns)
		r->part_end_ns = next_end(&r->opts->split, wall_ns());
	files->part_done(files->ctx);
}

/* Parts that have a time. */
static void begin_parts(struct limits_run *r)
{
	const struct limit_split *split = &r->opts->split;
	int64_t now = wall_ns(), first = now + (int64_t)split->first_ns;

	if (!split->every_ns)
		return;
	r->part_end_ns = next_end(split, now);
	if (split->first_ns && first < r->part_end_ns)
		r->part_end_ns = first;
}

int limits_begin(struct limits_run *r, struct capw *capw, struct assembler *as)
{
	const struct limit_triggers *t = &r->opts->triggers;

	r->capw = capw;
	r->as = as;
	begin_parts(r);
	for (unsigned int i = 0; i < t->cnt; i++) {
		int err = assembler__watch(r->as, t->v[i].function, t->v[i].over_ns);

		if (err < 0)
			return err;
	}
	return 0;
}

static bool is_busy(const struct limits_run *r)
{
	return r->files->busy(r->files->ctx);
}

/* Whether a file is being made now. */
static bool dump(struct limits_run *r, uint64_t now)
{
	flush(r, now);
	return !r->files->dump(r->files->ctx, r->capw);
}

static void say_slow(const struct limits_run *r, unsigned int trigger)
{
	const struct assembler_slow *slow = assembler__slow(r->as, (int)trigger);
	char shown[256];
	const char *text = r->opts->triggers.v[trigger].function;

	if (!r->quiet)
		fprintf(stderr, "%strigger: a call of %s took %.1f ms\n",
			isatty(STDERR_FILENO) ? "\r\033[K" : "",
			text_escape(shown, sizeof(shown), text, strlen(text)),
			(double)slow->last_ns / 1e6);
}

/* Files would overlap if they were written more often than the recorder is long. */
static bool may_fire(const struct limits_run *r, uint64_t now)
{
	const struct limit_fired *f = &r->fired;

	return f->files < TRIGGER_FILES_MAX &&
	       (!f->last_ns || now - f->last_ns >= r->opts->keep_ns);
}

/* As long as what led to the call is still there. */
static bool waits(struct limit_fired *f, unsigned int trigger, uint64_t now, uint64_t keep_ns)
{
	uint64_t *since = &f->waits_ns[trigger];

	if (!*since)
		*since = now;
	return now - *since < keep_ns;
}

static void look_at_triggers(struct limits_run *r, uint64_t now)
{
	struct limit_fired *f = &r->fired;

	for (unsigned int i = 0; r->as && i < r->opts->triggers.cnt; i++) {
		uint64_t slow = assembler__slow(r->as, (int)i)->slow;
		bool fires = slow != f->seen[i] && may_fire(r, now), busy = fires && is_busy(r);

		if (busy && waits(f, i, now, r->opts->keep_ns))
			continue;
		f->seen[i] = slow;
		f->waits_ns[i] = 0;
		if (!fires || busy || !dump(r, now))
			continue;
		f->last_ns = now;
		f->files++;
		say_slow(r, i);
	}
}

void limits_report(const struct limits_run *r)
{
	for (unsigned int i = 0; !r->quiet && i < r->opts->triggers.cnt; i++) {
		const struct assembler_slow *slow = assembler__slow(r->as, (int)i);
		const char *text = r->opts->triggers.v[i].text;
		const char *function = r->opts->triggers.v[i].function;
		char shown[300];

		fprintf(stderr, "trigger   %s: %llu of %llu calls took longer, at most %.1f ms\n",
			text_escape(shown, sizeof(shown), text, strlen(text)),
			(unsigned long long)slow->slow, (unsigned long long)slow->calls,
			(double)slow->longest_ns / 1e6);
		if (!slow->functions)
			log_warn("no function that ran is called %s",
				 text_escape(shown, sizeof(shown), function, strlen(function)));
	}
	if (!r->quiet && r->opts->triggers.cnt)
		fprintf(stderr, "triggers  %u files were written\n", r->fired.files);
}

void limits_dump(struct limits_run *r, uint64_t now)
{
	look_at_triggers(r, now);
	if (!r->dumps_asked)
		return;
	if (!r->opts->keep_ns || !r->capw) {
		log_warn(r->capw ? "SIGUSR1 is for --flight-recorder: nothing is written"
				 : "nothing is recorded yet");
		r->dumps_asked = 0;
	} else if (!is_busy(r)) { /* else when the one before is written */
		r->dumps_asked = 0;
		dump(r, now);
	}
}

uint64_t limits_flush_ns(const struct limits_run *r)
{
	uint64_t keep_ns = r->opts->keep_ns;

	if (r->opts->split.every_ns)
		return FLUSH_PART_NS;
	return keep_ns && keep_ns / 8 < FLUSH_NS ? keep_ns / 8 : FLUSH_NS;
}
