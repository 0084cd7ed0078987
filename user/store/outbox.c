// SPDX-License-Identifier: Apache-2.0
#include "store/outbox.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/grow.h"
#include "store/sql.h"

static const char on_connect[] =
	"PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;";

static const char create[] =
	"BEGIN;"
	"CREATE TABLE IF NOT EXISTS settled ("
	" file TEXT NOT NULL, sink TEXT NOT NULL, how INTEGER NOT NULL,"
	" PRIMARY KEY (file, sink)) WITHOUT ROWID;"
	"CREATE TABLE IF NOT EXISTS part ("
	" file TEXT NOT NULL, sink TEXT NOT NULL, parts INTEGER NOT NULL, samples INTEGER NOT NULL,"
	" PRIMARY KEY (file, sink)) WITHOUT ROWID;"
	"PRAGMA user_version = 1; COMMIT;";

enum statement {
	STMT_BEGIN,
	STMT_COMMIT,
	STMT_SETTLE,
	STMT_SETTLED,
	STMT_PART,
	STMT_PARTS,
	STMT_FORGET,
	STMT_FORGET_PARTS,
	STMT_EACH,
	STMT_CNT
};

static const char *const statements[STMT_CNT] = {
	[STMT_BEGIN] = "BEGIN IMMEDIATE",
	[STMT_COMMIT] = "COMMIT",
	[STMT_SETTLE] = "INSERT OR REPLACE INTO settled (file, sink, how) VALUES (?, ?, ?)",
	[STMT_SETTLED] = "SELECT 1 FROM settled WHERE file = ? AND sink = ?",
	[STMT_PART] =
		"INSERT OR REPLACE INTO part (file, sink, parts, samples) VALUES (?, ?, ?, ?)",
	[STMT_PARTS] = "SELECT parts, samples FROM part WHERE file = ? AND sink = ?",
	[STMT_FORGET] = "DELETE FROM settled WHERE file = ?",
	[STMT_FORGET_PARTS] = "DELETE FROM part WHERE file = ?",
	[STMT_EACH] = "SELECT file FROM settled UNION SELECT file FROM part",
};

/* That a window of a sink is settled, or how far it is. */
struct note {
	char *sink, *file;
	enum statement what; /* STMT_SETTLE, STMT_PART */
	int64_t values[2]; /* how; or parts, samples */
};

struct outbox {
	struct sql sql;
	sqlite3_stmt *statements[STMT_CNT];
	struct note *notes; /* that are not known to be on disk */
	uint32_t note_cnt, note_cap;
};

static const struct sql_schema outbox_schema = {
	.what = "list of what was sent",
	.number = 1,
	.on_connect = on_connect,
	.create = create,
	.statements = statements,
	.statement_cnt = STMT_CNT,
};

/* --- notes --- */

static void note_done(struct note *n)
{
	free(n->sink);
	free(n->file);
}

/* Those from @from on. */
static void drop_notes(struct outbox *o, uint32_t from)
{
	while (o->note_cnt > from)
		note_done(&o->notes[--o->note_cnt]);
}

static int keep_note(struct outbox *o, const struct note *n)
{
	struct note copy = *n;

	copy.sink = strdup(n->sink);
	copy.file = strdup(n->file);
	if (!copy.sink || !copy.file || GROW(o->notes, o->note_cap, o->note_cnt)) {
		note_done(&copy);
		return -ENOMEM;
	}
	o->notes[o->note_cnt++] = copy;
	return 0;
}

static const struct note *find_note(const struct outbox *o, enum statement what, const char *sink,
				    const char *file)
{
	for (uint32_t i = o->note_cnt; i-- > 0;) {
		const struct note *n = &o->notes[i];

		if (n->what == what && !strcmp(n->file, file) && !strcmp(n->sink, sink))
			return n;
	}
	return NULL;
}

static void forget_notes(struct outbox *o, const char *file)
{
	for (uint32_t i = o->note_cnt; i-- > 0;) {
		if (strcmp(o->notes[i].file, file) != 0)
			continue;
		note_done(&o->notes[i]);
		o->notes[i] = o->notes[--o->note_cnt];
	}
}

/* --- opening --- */

static int try_open(struct outbox **out, const char *path, struct err *e)
{
	struct outbox *o = calloc(1, sizeof(*o));
	int err;

	if (!o)
		return -ENOMEM;
	err = sql__open(&o->sql, path, &outbox_schema, o->statements, e);
	/* taking the lock now tells who else has it */
	err = err ? err : outbox__begin(o, e);
	err = err ? err : outbox__commit(o, e);
	if (err)
		outbox__free(o);
	else
		*out = o;
	return err;
}

int outbox__open(struct outbox **out, const char *dir, struct err *e)
{
	char path[PATH_MAX], beside[PATH_MAX + 8];
	int n = snprintf(path, sizeof(path), "%s/outbox.sqlite", dir);
	int err;

	if (n < 0 || (size_t)n >= sizeof(path))
		return err_set(e, -PYE_EOUTPUT, "the name of the store is too long");
	err = try_open(out, path, e);
	if (err != -PYE_EFORMAT)
		return err;
	unlink(path);
	snprintf(beside, sizeof(beside), "%s-wal", path);
	unlink(beside);
	return try_open(out, path, e);
}

void outbox__free(struct outbox *o)
{
	if (!o)
		return;
	sql__close(&o->sql, &outbox_schema, o->statements);
	drop_notes(o, 0);
	free(o->notes);
	free(o);
}

static int run(struct outbox *o, enum statement which, struct err *e)
{
	return sql__run(&o->sql, &outbox_schema, o->statements[which], e);
}

/* The statement about a window of a sink. */
static sqlite3_stmt *about(struct outbox *o, enum statement which, const char *sink,
			   const char *file)
{
	sqlite3_stmt *s = o->statements[which];

	sqlite3_bind_text(s, 1, file, -1, SQLITE_TRANSIENT);
	sqlite3_bind_text(s, 2, sink, -1, SQLITE_TRANSIENT);
	return s;
}

static int write_note(struct outbox *o, const struct note *n, struct err *e)
{
	sqlite3_stmt *s = about(o, n->what, n->sink, n->file);

	sqlite3_bind_int64(s, 3, n->values[0]);
	if (n->what == STMT_PART)
		sqlite3_bind_int64(s, 4, n->values[1]);
	return run(o, n->what, e);
}

/* A full disk takes nothing now: what is in the notes is written when the next change is. */
static int unless_full(int err, struct err *e)
{
	if (err != -ENOSPC)
		return err;
	*e = (struct err){ .what = "" };
	return 0;
}

int outbox__begin(struct outbox *o, struct err *e)
{
	int err = sql__begin(&o->sql, &outbox_schema, o->statements[STMT_BEGIN], e);

	for (uint32_t i = 0; i < o->note_cnt && !err; i++)
		err = write_note(o, &o->notes[i], e);
	return unless_full(err, e);
}

int outbox__commit(struct outbox *o, struct err *e)
{
	int err;

	/* a full disk has ended it already, with nothing of it done */
	if (sqlite3_get_autocommit(o->sql.db))
		return 0;
	err = run(o, STMT_COMMIT, e);
	if (!err)
		drop_notes(o, 0);
	return unless_full(err, e);
}

static int note_down(struct outbox *o, const struct note *n, struct err *e)
{
	int err = keep_note(o, n);

	return err ? err : unless_full(write_note(o, n, e), e);
}

int outbox__settle(struct outbox *o, const char *sink, const char *file, unsigned int how,
		   struct err *e)
{
	return note_down(o, &(struct note){ (char *)sink, (char *)file, STMT_SETTLE, { how } }, e);
}

int outbox__settled(struct outbox *o, const char *sink, const char *file, struct err *e)
{
	if (find_note(o, STMT_SETTLE, sink, file))
		return 1;
	return sql__has(&o->sql, &outbox_schema, about(o, STMT_SETTLED, sink, file), e);
}

int outbox__part(struct outbox *o, const char *sink, const char *file,
		 const struct outbox_progress *progress, struct err *e)
{
	const struct note n = {
		(char *)sink, (char *)file, STMT_PART, { progress->parts, progress->samples }
	};
	int err = outbox__begin(o, e);

	err = err ? err : note_down(o, &n, e);
	return err ? err : outbox__commit(o, e);
}

int outbox__parts(struct outbox *o, const char *sink, const char *file, struct outbox_progress *out,
		  struct err *e)
{
	const struct note *n = find_note(o, STMT_PART, sink, file);
	sqlite3_stmt *s = about(o, STMT_PARTS, sink, file);
	int code;

	*out = (struct outbox_progress){ 0 };
	if (n) {
		*out = (struct outbox_progress){ (uint32_t)n->values[0], (uint32_t)n->values[1] };
		return 0;
	}
	code = sqlite3_step(s);
	if (code == SQLITE_ROW)
		*out = (struct outbox_progress){ (uint32_t)sqlite3_column_int64(s, 0),
						 (uint32_t)sqlite3_column_int64(s, 1) };
	sqlite3_reset(s);
	return code == SQLITE_ROW || code == SQLITE_DONE
		       ? 0
		       : sql__failed(&o->sql, &outbox_schema, code, e);
}

int outbox__forget(struct outbox *o, const char *file, struct err *e)
{
	int err = 0;

	forget_notes(o, file);
	for (unsigned int i = STMT_FORGET; i <= STMT_FORGET_PARTS && !err; i++) {
		sqlite3_bind_text(o->statements[i], 1, file, -1, SQLITE_TRANSIENT);
		err = run(o, i, e);
	}
	/* what stays on a full disk is found when it is opened next */
	return unless_full(err, e);
}

int outbox__each(struct outbox *o, int (*fn)(void *ctx, const char *file), void *ctx, struct err *e)
{
	sqlite3_stmt *s = o->statements[STMT_EACH];
	int code, err = 0;

	while (!err && (code = sqlite3_step(s)) != SQLITE_DONE) {
		const char *file = (const char *)sqlite3_column_text(s, 0);

		err = code == SQLITE_ROW ? fn(ctx, file ? file : "")
					 : sql__failed(&o->sql, &outbox_schema, code, e);
	}
	sqlite3_reset(s);
	return err;
}
