// SPDX-License-Identifier: Apache-2.0
/*
 * Files that are made while a run goes on. A forked child has the flight recorder's memory as it was at
 * that moment, for as long as it takes to write it, and the parent goes on reading its rings. It keeps
 * no descriptor of the parent's: the probes go with the parent alone.
 */
#define LOG_DOMAIN "output"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "capfile/writer.h"
#include "cmd/cmd.h"
#include "cmd/outputs.h"

struct job {
	struct job *next;
	struct outputs outputs;
	struct outfile *capture;
};

struct background {
	pid_t child; /* 0: none */
	struct job *current; /* what the child makes of a capture; NULL: a dump */
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

	if (b->child)
		return -EBUSY;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid) {
		b->child = pid;
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
	int status;

	if (b->child && waitpid(b->child, &status, WNOHANG) == b->child)
		ended(b, status);
	return !b->child;
}

unsigned int background__wait(struct background *b)
{
	int status;

	while (b->child) {
		if (waitpid(b->child, &status, 0) == b->child)
			ended(b, status);
		else if (errno != EINTR)
			ended(b, 1);
	}
	return b->failed_cnt;
}

void background__free(struct background *b)
{
	struct job *next;

	if (!b)
		return;
	for (struct job *job = b->first; job; job = next) {
		next = job->next;
		job_free(job);
	}
	if (b->current)
		job_free(b->current);
	free(b);
}
