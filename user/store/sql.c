// SPDX-License-Identifier: Apache-2.0
#include "store/sql.h"

#include <errno.h>
#include <stdlib.h>

int sql__failed(const struct sql *s, const struct sql_schema *schema, int code, struct err *e)
{
	const char *why = s->db ? sqlite3_errmsg(s->db) : sqlite3_errstr(code);
	int cause = s->db ? sqlite3_system_errno(s->db) : 0;

	if (code == SQLITE_IOERR_NOMEM)
		return -ENOMEM;
	switch (code & 0xff) {
	case SQLITE_FULL:
	case SQLITE_READONLY: /* of a disk that an error has made so; the next one is what open files get then */
	case SQLITE_IOERR:
		return err_set(e, -ENOSPC, "the %s cannot be written: %s", schema->what, why);
	case SQLITE_NOMEM:
		return -ENOMEM;
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
	case SQLITE_ERROR: /* no such table or column */
	case SQLITE_SCHEMA:
		return err_set(e, -PYE_EFORMAT, "the %s cannot be used: %s", schema->what, why);
	default:
		return err_set(e, err_is_full(cause) ? -ENOSPC : -PYE_EOUTPUT,
			       "the %s cannot be written: %s", schema->what, why);
	}
}

static int number_of(void *ctx, int cnt, char **values, char **names)
{
	(void)cnt;
	(void)names;
	*(long *)ctx = values[0] ? strtol(values[0], NULL, 10) : 0;
	return 0;
}

static int set_up(struct sql *s, const struct sql_schema *schema, sqlite3_stmt **statements)
{
	long number = 0;
	int code = sqlite3_exec(s->db, schema->on_connect, NULL, NULL, NULL);

	if (!code)
		code = sqlite3_exec(s->db, "PRAGMA user_version", number_of, &number, NULL);
	if (code)
		return code;
	if (number && number != schema->number)
		return SQLITE_NOTADB;
	/* one that is there is not written to: it opens on a full disk, too */
	if (!number)
		code = sqlite3_exec(s->db, schema->create, NULL, NULL, NULL);
	for (unsigned int i = 0; i < schema->statement_cnt && !code; i++)
		code = sqlite3_prepare_v3(s->db, schema->statements[i], -1,
					  SQLITE_PREPARE_PERSISTENT, &statements[i], NULL);
	return code;
}

int sql__open(struct sql *s, const char *path, const struct sql_schema *schema,
	      sqlite3_stmt **statements, struct err *e)
{
	int code =
		sqlite3_open_v2(path ? path : ":memory:", &s->db,
				SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX |
					SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_URI,
				NULL);

	if (!code)
		sqlite3_busy_timeout(s->db, 5000);
	code = code ? code : set_up(s, schema, statements);
	return code ? sql__failed(s, schema, code, e) : 0;
}

void sql__close(struct sql *s, const struct sql_schema *schema, sqlite3_stmt **statements)
{
	for (unsigned int i = 0; i < schema->statement_cnt; i++)
		sqlite3_finalize(statements[i]);
	sqlite3_close(s->db);
}

int sql__run(struct sql *s, const struct sql_schema *schema, sqlite3_stmt *statement, struct err *e)
{
	int err = sql__has(s, schema, statement, e);

	return err < 0 ? err : 0;
}

int sql__begin(struct sql *s, const struct sql_schema *schema, sqlite3_stmt *statement,
	       struct err *e)
{
	if (!sqlite3_get_autocommit(s->db))
		sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
	return sql__run(s, schema, statement, e);
}

int sql__has(struct sql *s, const struct sql_schema *schema, sqlite3_stmt *statement, struct err *e)
{
	int code = sqlite3_step(statement);
	int err = code == SQLITE_ROW	? 1
		  : code == SQLITE_DONE ? 0
					: sql__failed(s, schema, code, e);

	sqlite3_reset(statement);
	return err;
}
