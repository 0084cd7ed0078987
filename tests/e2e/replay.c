// SPDX-License-Identifier: Apache-2.0
/* usage: replay RINGS CAPTURE: what `pyebpf trace --record-rings RINGS` made, through the assembler again. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "abi/event.h"
#include "assemble/assemble.h"
#include "capfile/writer.h"
#include "capture/replay.h"

struct player {
	struct capw *w;
	struct assembler *a;
	uint64_t lost[LOSS_CNT];
};

static int on_process(struct player *p, const struct replay_process *r)
{
	const struct assembler_process process = { .trace = { .id = r->pix,
							      .pid = r->pid,
							      .start_ns = r->start_ns,
							      .comm = r->comm,
							      .exe = r->exe,
							      .python = r->python },
						   .layout = &r->layout,
						   .proc_pid = -1,
						   .late = r->late };

	return assembler__process(p->a, &process);
}

static int on_control(struct player *p, const struct pye_proc_rec *rec)
{
	const struct assembler_child child = { .from = rec->old_pix,
					       .pix = rec->pix,
					       .pid = (pid_t)rec->pid,
					       .ts_ns = rec->head.ts_ns };

	if (rec->head.kind == PYE_REC_PROC_END)
		assembler__process_end(p->a, rec->pix, rec->head.ts_ns);
	if (rec->head.kind == PYE_REC_EXEC)
		assembler__process_end(p->a, rec->old_pix, rec->head.ts_ns);
	if (rec->head.kind == PYE_REC_EXEC || rec->head.kind == PYE_REC_FORK)
		assembler__fork(p->a, &child);
	return 0;
}

static int on_item(void *self, const struct replay_item *item, const void *data)
{
	struct player *p = self;
	const struct replay_final *final = data;

	if (item->kind == REPLAY_PROCESS && item->len == sizeof(struct replay_process))
		return on_process(p, data);
	if (item->kind == REPLAY_CONTROL && item->len == sizeof(struct pye_proc_rec))
		return on_control(p, data);
	if (item->kind == REPLAY_FINAL && item->len == sizeof(*final))
		assembler__final(p->a, final->tix, final->seq, final->until_ns);
	else if (item->kind == REPLAY_LOSSES && item->len == sizeof(p->lost))
		memcpy(p->lost, data, item->len);
	else
		return -EPROTO;
	return 0;
}

static int play(struct player *p, struct replay *r)
{
	struct capture_batch batch;
	int err, got;

	while ((got = replay_ops.next(r, &batch)) > 0) {
		err = assembler__feed(p->a, &batch);
		if (err)
			return err;
	}
	return got < 0 ? got : assembler__finish(p->a);
}

int main(int argc, char **argv)
{
	const struct trace_info info = { .engine = "replay",
					 .version = "",
					 .hostname = "",
					 .kernel = "",
					 .cpu = "",
					 .arguments = "" };
	struct trace_totals totals;
	struct player p = { 0 };
	struct replay *r = NULL;
	int in, out, err;

	if (argc != 3)
		return 2;
	in = open(argv[1], O_RDONLY | O_CLOEXEC);
	out = open(argv[2], O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	err = in < 0 || out < 0 ? -errno : replay__open(&r, in, on_item, &p);
	if (!err)
		err = capw__new(&p.w, out, NULL, &info);
	if (!err)
		err = assembler__new(&p.a, p.w);
	if (!err)
		err = play(&p, r);
	if (!err) {
		assembler__totals(p.a, p.lost, &totals);
		totals.end_ns = 1;
		totals.complete = true;
		err = capw__finish(p.w, &totals);
	}
	if (err)
		fprintf(stderr, "replay: %s\n", strerror(-err));
	assembler__free(p.a);
	capw__free(p.w);
	replay__free(r);
	return err ? 1 : 0;
}
