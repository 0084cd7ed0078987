// SPDX-License-Identifier: Apache-2.0
#include "store/catalogue.h"

#include <errno.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static const char schema[] = "PRAGMA foreign_keys = ON;"
			     "CREATE TABLE IF NOT EXISTS window ("
			     " id INTEGER PRIMARY KEY AUTOINCREMENT, file TEXT NOT NULL UNIQUE,"
			     " start_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL,"
			     " bytes INTEGER NOT NULL);"
			     "CREATE INDEX IF NOT EXISTS window_start ON window (start_ns, file);"
			     "CREATE TABLE IF NOT EXISTS label ("
			     " window INTEGER NOT NULL REFERENCES window ON DELETE CASCADE,"
			     " name TEXT NOT NULL, value TEXT NOT NULL,"
			     " PRIMARY KEY (window, name)) WITHOUT ROWID;"
			     "PRAGMA user_version = " STR(SCHEMA_NUMBER) ";";

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

struct catalogue {
	sqlite3 *db;
	sqlite3_stmt *statements[STMT_CNT];
};

/* What SQLite says, as one of our numbers. */
static int failed(const struct catalogue *c, int code, struct err *e)
{
	const char *why = c->db ? sqlite3_errmsg(c->db) : sqlite3_errstr(code);

	switch (code & 0xff) {
	case SQLITE_NOMEM:
		return -ENOMEM;
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
	case SQLITE_ERROR: /* no such table or column */
	case SQLITE_SCHEMA:
		return err_set(e, -PYE_EFORMAT, "the catalogue cannot be used: %s", why);
	default:
		return err_set(e, -PYE_EOUTPUT, "the catalogue cannot be written: %s", why);
	}
}

static int prepare(struct catalogue *c)
{
	for (unsigned int i = 0; i < STMT_CNT; i++) {
		int code = sqlite3_prepare_v3(c->db, statements[i], -1, SQLITE_PREPARE_PERSISTENT,
					      &c->statements[i], NULL);

		if (code)
			return code;
	}
	return SQLITE_OK;
}

static int number_of(void *ctx, int cnt, char **values, char **names)
{
	(void)cnt;
	(void)names;
	*(long *)ctx = values[0] ? strtol(values[0], NULL, 10) : 0;
	return 0;
}

static int set_up(struct catalogue *c)
{
	long number = 0;
	int code = sqlite3_exec(c->db, "PRAGMA user_version", number_of, &number, NULL);

	if (code)
		return code;
	if (number && number != SCHEMA_NUMBER)
		return SQLITE_NOTADB;
	/* A window is on disk before its row: a row that a power cut takes is made again from the file. No
	 * write-ahead log: readers would have to write, too. */
	code = sqlite3_exec(c->db, "PRAGMA journal_mode = DELETE; PRAGMA synchronous = NORMAL",
			    NULL, NULL, NULL);
	code = code ? code : sqlite3_exec(c->db, schema, NULL, NULL, NULL);
	return code ? code : prepare(c);
}

int catalogue__open(struct catalogue **out, const char *path, struct err *e)
{
	struct catalogue *c = calloc(1, sizeof(*c));
	int code, err;

	if (!c)
		return -ENOMEM;
	code = sqlite3_open_v2(path ? path : ":memory:", &c->db,
			       SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX |
				       SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_URI,
			       NULL);
	if (!code)
		sqlite3_busy_timeout(c->db, 5000);
	code = code ? code : set_up(c);
	if (!code) {
		*out = c;
		return 0;
	}
	err = failed(c, code, e);
	catalogue__free(c);
	return err;
}

void catalogue__free(struct catalogue *c)
{
	if (!c)
		return;
	for (unsigned int i = 0; i < STMT_CNT; i++)
		sqlite3_finalize(c->statements[i]);
	sqlite3_close(c->db);
	free(c);
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
	int code = sqlite3_prepare_v2(c->db, "ATTACH ? AS disk", -1, &attach, NULL);

	read_only_uri(path, uri, sizeof(uri));
	if (!code)
		code = sqlite3_bind_text(attach, 1, uri, -1, SQLITE_STATIC);
	if (!code)
		code = sqlite3_step(attach) == SQLITE_DONE ? SQLITE_OK : SQLITE_CANTOPEN;
	sqlite3_finalize(attach);
	if (code)
		return code;
	code = sqlite3_exec(c->db,
			    "BEGIN;"
			    "INSERT INTO main.window SELECT * FROM disk.window;"
			    "INSERT INTO main.label SELECT * FROM disk.label;"
			    "COMMIT",
			    NULL, NULL, NULL);
	if (code)
		sqlite3_exec(c->db, "ROLLBACK", NULL, NULL, NULL);
	sqlite3_exec(c->db, "DETACH disk", NULL, NULL, NULL);
	return code;
}

int catalogue__copy(struct catalogue *c, const char *path)
{
	return (copy_rows(c, path) & 0xff) == SQLITE_NOMEM ? -ENOMEM : 0;
}

/* Runs a statement that gives no rows, and leaves it ready for the next time. */
static int run(struct catalogue *c, enum statement which, struct err *e)
{
	int code = sqlite3_step(c->statements[which]);
	int err = code == SQLITE_DONE || code == SQLITE_ROW ? 0 : failed(c, code, e);

	sqlite3_reset(c->statements[which]);
	return err;
}

static void bind_text(struct catalogue *c, enum statement which, int at, const char *text)
{
	sqlite3_bind_text(c->statements[which], at, text, -1, SQLITE_TRANSIENT);
}

int catalogue__begin(struct catalogue *c, struct err *e)
{
	return run(c, STMT_BEGIN, e);
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
	id = sqlite3_last_insert_rowid(c->db);
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
	int code;

	bind_text(c, STMT_HAS, 1, file);
	code = sqlite3_step(c->statements[STMT_HAS]);
	sqlite3_reset(c->statements[STMT_HAS]);
	if (code == SQLITE_ROW || code == SQLITE_DONE)
		return code == SQLITE_ROW;
	return failed(c, code, e);
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
