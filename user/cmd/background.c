// SPDX-License-Identifier: Apache-2.0
/*
 * Files that are made while a run goes on. A forked child has the flight recorder's memory as it was at
 * that moment, for as long as it takes to write it, and the parent goes on reading its rings. It keeps
 * no descriptor of the parent's: the probes go with the parent alone.
 */
#define LOG_DOMAIN "output"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "capfile/writer.h"
#include "cmd/cmd.h"
#include "cmd/outputs.h"
#include "cmd/run.h"

#define CHILD_MS 1000 /* between two looks, for want of a signal */

struct job {
	struct job *next;
	struct outputs outputs;
	struct outfile *capture;
};

struct background {
	pid_t child; /* 0: none */
	struct job *current; /* what the child makes of a capture; NULL: a dump */
	struct outputs dumped; /* the last one's */
	struct job *first, **end;
	unsigned int failed_cnt;
};

int background__new(struct background **out)
{
	struct background *b = calloc(1, sizeof(*b));

	if (!b)
		return -ENOMEM;
	b->end = &b->first;
	*out = b;
	return 0;
}

static int dump(const struct outputs *o, struct capw *w, struct err *e)
{
	auto_fn(outfile__freep) struct outfile *capture = NULL;
	int err = outfile__open(&capture, o->capture, OUTFILE_DIRECT, o->opts->force, e);

	if (err)
		return err;
	err = capw__dump(w, outfile__fd(capture));
	if (err) {
		outfile__remove(capture);
		return err_set(e, -PYE_EOUTPUT, "the flight recorder cannot be written: %s",
			       strerror(-err));
	}
	err = outputs_produce(o, capture, false, e);
	outputs_discard(o, capture, err);
	return err;
}

int background__dump(struct background *b, const struct outputs *o, struct capw *w)
{
	struct err e = { 0 };
	pid_t pid;
	int err;

	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid) {
		b->child = pid;
		b->dumped = *o;
		return 0;
	}
	close_range(STDERR_FILENO + 1, ~0u, 0);
	err = dump(o, w, &e);
	if (err)
		cmd_fail("trace", err, &e);
	_exit(err != 0);
}

static int begin_job(struct background *b, struct job *job)
{
	struct err e = { 0 };
	pid_t pid = fork();
	int err, fd;

	if (pid < 0)
		return -errno;
	if (pid) {
		b->child = pid;
		return 0;
	}
	fd = outfile__fd(job->capture);
	if (fd > STDERR_FILENO + 1)
		close_range(STDERR_FILENO + 1, (unsigned int)fd - 1, 0);
	close_range((unsigned int)fd + 1, ~0u, 0);
	err = outputs_produce(&job->outputs, job->capture, false, &e);
	if (err)
		cmd_fail("trace", err, &e);
	_exit(err != 0);
}

static void job_free(struct job *job)
{
	outfile__free(job->capture);
	free(job);
}

static void drop_queue(struct background *b)
{
	struct job *next;

	for (struct job *job = b->first; job; job = next) {
		next = job->next;
		job_free(job);
	}
	b->first = NULL;
	b->end = &b->first;
}

static void begin_next(struct background *b)
{
	struct job *job = b->first;

	if (!job || b->child)
		return;
	b->first = job->next;
	if (!b->first)
		b->end = &b->first;
	if (begin_job(b, job)) {
		b->failed_cnt++;
		outputs_say_kept(&job->outputs, "no process could be started; the capture is in");
		job_free(job);
		return;
	}
	b->current = job;
}

int background__part(struct background *b, const struct outputs *o, struct outfile *capture)
{
	struct job *job = calloc(1, sizeof(*job));

	if (!job) {
		outputs_say_kept(o, "no memory; the capture is in");
		outfile__free(capture);
		b->failed_cnt++;
		return -ENOMEM;
	}
	job->outputs = *o;
	job->capture = capture;
	*b->end = job;
	b->end = &job->next;
	begin_next(b);
	return 0;
}

static void ended(struct background *b, int status)
{
	bool failed = !WIFEXITED(status) || WEXITSTATUS(status);

	b->child = 0;
	b->failed_cnt += failed;
	if (b->current) {
		outputs_discard(&b->current->outputs, b->current->capture, failed);
		job_free(b->current);
		b->current = NULL;
	}
	begin_next(b);
}

bool background__reap(struct background *b)
{
	int status = -1;
	pid_t got = b->child ? waitpid(b->child, &status, WNOHANG) : 0;

	if (got > 0 || (got < 0 && errno != EINTR))
		ended(b, status);
	return !b->child;
}

/* Its file has no name yet, and is gone with it. */
static void stop(struct background *b)
{
	for (struct job *job = b->first; job; job = job->next) {
		outputs_say_kept(&job->outputs, "interrupted; the capture is in");
		b->failed_cnt++;
	}
	drop_queue(b);
	kill(b->child, SIGKILL);
	waitpid(b->child, NULL, 0);
	if (!b->current && !access(b->dumped.capture, F_OK))
		outputs_say_kept(
			&b->dumped,
			"interrupted; the flight recorder, as far as it was written, is in");
	ended(b, -1);
}

unsigned int background__wait(struct background *b, unsigned int *asks)
{
	while (!background__reap(b)) {
		*asks -= *asks && run_is_to_end(CHILD_MS);
		if (!*asks)
			stop(b);
	}
	return b->failed_cnt;
}

void background__free(struct background *b)
{
	if (!b)
		return;
	drop_queue(b);
	if (b->current)
		job_free(b->current);
	free(b);
}
