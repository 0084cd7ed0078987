// SPDX-License-Identifier: Apache-2.0
#include "store/catalogue.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/sql.h"

/* Another schema is another number: the catalogue is then made again from the files. */
#define SCHEMA_NUMBER 1
#define STR_(x)	      #x
#define STR(x)	      STR_(x)

enum statement {
	STMT_BEGIN,
	STMT_COMMIT,
	STMT_ADD,
	STMT_ADD_LABEL,
	STMT_REMOVE,
	STMT_HAS,
	STMT_EACH,
	STMT_LABELS,
	STMT_BYTES,
	STMT_CNT
};

/* A window is on disk before its row: a row that a power cut takes is made again from the file. No
 * write-ahead log: readers would have to write, too. */
static const char on_connect[] = "PRAGMA journal_mode = DELETE; PRAGMA synchronous = NORMAL;"
				 "PRAGMA foreign_keys = ON;";

static const char create[] = "BEGIN;"
			     "CREATE TABLE IF NOT EXISTS window ("
			     " id INTEGER PRIMARY KEY AUTOINCREMENT, file TEXT NOT NULL UNIQUE,"
			     " start_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL,"
			     " bytes INTEGER NOT NULL);"
			     "CREATE INDEX IF NOT EXISTS window_start ON window (start_ns, file);"
			     "CREATE TABLE IF NOT EXISTS label ("
			     " window INTEGER NOT NULL REFERENCES window ON DELETE CASCADE,"
			     " name TEXT NOT NULL, value TEXT NOT NULL,"
			     " PRIMARY KEY (window, name)) WITHOUT ROWID;"
			     "PRAGMA user_version = " STR(SCHEMA_NUMBER) "; COMMIT;";

static const char *const statements[STMT_CNT] = {
	[STMT_BEGIN] = "BEGIN IMMEDIATE",
	[STMT_COMMIT] = "COMMIT",
	[STMT_ADD] =
		"INSERT OR REPLACE INTO window (file, start_ns, end_ns, bytes) VALUES (?, ?, ?, ?)",
	[STMT_ADD_LABEL] = "INSERT INTO label (window, name, value) VALUES (?, ?, ?)",
	[STMT_REMOVE] = "DELETE FROM window WHERE file = ?",
	[STMT_HAS] = "SELECT 1 FROM window WHERE file = ?",
	[STMT_EACH] = "SELECT id, file, start_ns, end_ns, bytes FROM window"
		      " WHERE end_ns > ? AND start_ns < ? ORDER BY start_ns, file",
	[STMT_LABELS] = "SELECT name, value FROM label WHERE window = ? ORDER BY name",
	[STMT_BYTES] = "SELECT COALESCE(SUM(bytes), 0) FROM window",
};

static const struct sql_schema schema = {
	.what = "catalogue",
	.number = SCHEMA_NUMBER,
	.on_connect = on_connect,
	.create = create,
	.statements = statements,
	.statement_cnt = STMT_CNT,
};

struct catalogue {
	struct sql sql;
	sqlite3_stmt *statements[STMT_CNT];
};

int catalogue__open(struct catalogue **out, const char *path, struct err *e)
{
	struct catalogue *c = calloc(1, sizeof(*c));
	int err;

	if (!c)
		return -ENOMEM;
	err = sql__open(&c->sql, path, &schema, c->statements, e);
	if (err)
		catalogue__free(c);
	else
		*out = c;
	return err;
}

void catalogue__free(struct catalogue *c)
{
	if (!c)
		return;
	sql__close(&c->sql, &schema, c->statements);
	free(c);
}

static int failed(const struct catalogue *c, int code, struct err *e)
{
	return sql__failed(&c->sql, &schema, code, e);
}

/* As SQLite wants the name of a file that it may not write to. */
static void read_only_uri(const char *path, char *out, size_t size)
{
	static const char end[] = "?mode=ro";
	size_t n = (size_t)snprintf(out, size, "file:");

	for (; *path && n + 3 + sizeof(end) < size; path++)
		n += (size_t)snprintf(out + n, size - n, strchr("%?#", *path) ? "%%%02x" : "%c",
				      (uint8_t)*path);
	snprintf(out + n, size - n, "%s", end);
}

static int copy_rows(struct catalogue *c, const char *path)
{
	char uri[3 * PATH_MAX + 16];
	sqlite3_stmt *attach = NULL;
	int code = sqlite3_prepare_v2(c->sql.db, "ATTACH ? AS disk", -1, &attach, NULL);

	read_only_uri(path, uri, sizeof(uri));
	if (!code)
		code = sqlite3_bind_text(attach, 1, uri, -1, SQLITE_STATIC);
	if (!code)
		code = sqlite3_step(attach) == SQLITE_DONE ? SQLITE_OK : SQLITE_CANTOPEN;
	sqlite3_finalize(attach);
	if (code)
		return code;
	code = sqlite3_exec(c->sql.db,
			    "BEGIN;"
			    "INSERT INTO main.window SELECT * FROM disk.window;"
			    "INSERT INTO main.label SELECT * FROM disk.label;"
			    "COMMIT",
			    NULL, NULL, NULL);
	if (code)
		sqlite3_exec(c->sql.db, "ROLLBACK", NULL, NULL, NULL);
	sqlite3_exec(c->sql.db, "DETACH disk", NULL, NULL, NULL);
	return code;
}

int catalogue__copy(struct catalogue *c, const char *path)
{
	return (copy_rows(c, path) & 0xff) == SQLITE_NOMEM ? -ENOMEM : 0;
}

static int run(struct catalogue *c, enum statement which, struct err *e)
{
	return sql__run(&c->sql, &schema, c->statements[which], e);
}

static void bind_text(struct catalogue *c, enum statement which, int at, const char *text)
{
	sqlite3_bind_text(c->statements[which], at, text, -1, SQLITE_TRANSIENT);
}

int catalogue__begin(struct catalogue *c, struct err *e)
{
	return sql__begin(&c->sql, &schema, c->statements[STMT_BEGIN], e);
}

int catalogue__commit(struct catalogue *c, struct err *e)
{
	return run(c, STMT_COMMIT, e);
}

int catalogue__add(struct catalogue *c, const struct store_window *window, struct err *e)
{
	sqlite3_stmt *add = c->statements[STMT_ADD], *label = c->statements[STMT_ADD_LABEL];
	int64_t id;
	int err;

	bind_text(c, STMT_ADD, 1, window->file);
	sqlite3_bind_int64(add, 2, window->start_ns);
	sqlite3_bind_int64(add, 3, window->end_ns);
	sqlite3_bind_int64(add, 4, (int64_t)window->bytes);
	err = run(c, STMT_ADD, e);
	id = sqlite3_last_insert_rowid(c->sql.db);
	for (uint32_t i = 0; i < window->label_cnt && !err; i++) {
		sqlite3_bind_int64(label, 1, id);
		bind_text(c, STMT_ADD_LABEL, 2, window->labels[i].name);
		bind_text(c, STMT_ADD_LABEL, 3, window->labels[i].value);
		err = run(c, STMT_ADD_LABEL, e);
	}
	return err;
}

int catalogue__remove(struct catalogue *c, const char *file, struct err *e)
{
	bind_text(c, STMT_REMOVE, 1, file);
	return run(c, STMT_REMOVE, e);
}

int catalogue__has(struct catalogue *c, const char *file, struct err *e)
{
	bind_text(c, STMT_HAS, 1, file);
	return sql__has(&c->sql, &schema, c->statements[STMT_HAS], e);
}

static const char *column(sqlite3_stmt *s, int at)
{
	const char *text = (const char *)sqlite3_column_text(s, at);

	return text ? text : "";
}

/* Labels of a window; the strings live until the statement is used again, so they are copied. */
static int read_labels(struct catalogue *c, int64_t id, struct store_label *labels, uint32_t *cnt)
{
	sqlite3_stmt *s = c->statements[STMT_LABELS];
	int code, err = 0;

	*cnt = 0;
	sqlite3_bind_int64(s, 1, id);
	code = sqlite3_step(s);
	for (; code == SQLITE_ROW && *cnt < STORE_LABELS_MAX && !err; code = sqlite3_step(s)) {
		struct store_label *l = &labels[(*cnt)++];

		l->name = strdup(column(s, 0));
		l->value = strdup(column(s, 1));
		err = l->name && l->value ? 0 : -ENOMEM;
	}
	sqlite3_reset(s);
	return !err && code != SQLITE_ROW && code != SQLITE_DONE ? -PYE_EFORMAT : err;
}

static void free_labels(struct store_label *labels, uint32_t cnt)
{
	for (uint32_t i = 0; i < cnt; i++) {
		free((char *)labels[i].name);
		free((char *)labels[i].value);
	}
}

static int give(struct catalogue *c, sqlite3_stmt *s, catalogue_fn fn, void *ctx)
{
	struct store_label labels[STORE_LABELS_MAX];
	struct store_window w = {
		.id = sqlite3_column_int64(s, 0),
		.file = column(s, 1),
		.start_ns = sqlite3_column_int64(s, 2),
		.end_ns = sqlite3_column_int64(s, 3),
		.bytes = (uint64_t)sqlite3_column_int64(s, 4),
		.labels = labels,
	};
	int err = read_labels(c, w.id, labels, &w.label_cnt);

	err = err ? err : fn(ctx, &w);
	free_labels(labels, w.label_cnt);
	return err;
}

int catalogue__each(struct catalogue *c, int64_t since_ns, int64_t until_ns, catalogue_fn fn,
		    void *ctx, struct err *e)
{
	sqlite3_stmt *s = c->statements[STMT_EACH];
	int code, err = 0;

	sqlite3_bind_int64(s, 1, since_ns);
	sqlite3_bind_int64(s, 2, until_ns);
	while (!err && (code = sqlite3_step(s)) != SQLITE_DONE)
		err = code == SQLITE_ROW ? give(c, s, fn, ctx) : failed(c, code, e);
	sqlite3_reset(s);
	return err;
}

int catalogue__bytes(struct catalogue *c, uint64_t *out, struct err *e)
{
	sqlite3_stmt *s = c->statements[STMT_BYTES];
	int code = sqlite3_step(s);

	*out = code == SQLITE_ROW ? (uint64_t)sqlite3_column_int64(s, 0) : 0;
	sqlite3_reset(s);
	return code == SQLITE_ROW ? 0 : failed(c, code, e);
}
