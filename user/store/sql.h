/* SPDX-License-Identifier: Apache-2.0 */
/* A file of SQLite with one schema and the statements that are used on it. Only this folder uses it. */
#ifndef PYEBPF_STORE_SQL_H
#define PYEBPF_STORE_SQL_H

#include <sqlite3.h>

#include "base/err.h"

struct sql {
	sqlite3 *db;
};

struct sql_schema {
	const char *what; /* it is, for messages: "catalogue" */
	long number; /* that @create sets as user_version; a file with another one cannot be used */
	const char *on_connect; /* what each connection sets */
	const char *create; /* for a file that is new; it sets user_version last */
	const char *const *statements;
	unsigned int statement_cnt;
};

/**
 * sql__open - open a file, or make it
 * @path:       NULL: in memory
 * @statements: room for those of @schema; release everything with sql__close() in any case
 *
 * Return: 0; -PYE_EFORMAT: it is damaged or of another kind; -PYE_EOUTPUT: it cannot be written; -ENOSPC: there is no room for it;
 * -ENOMEM.
 */
int sql__open(struct sql *s, const char *path, const struct sql_schema *schema,
	      sqlite3_stmt **statements, struct err *e);
void sql__close(struct sql *s, const struct sql_schema *schema, sqlite3_stmt **statements);

/* sql__failed - what SQLite says, as one of our numbers, with a sentence. */
int sql__failed(const struct sql *s, const struct sql_schema *schema, int code, struct err *e);

/* sql__begin - as sql__run. What failed between the last one and its commit is taken back first. */
int sql__begin(struct sql *s, const struct sql_schema *schema, sqlite3_stmt *statement,
	       struct err *e);

/* sql__run - a statement that gives no rows; it is then ready for the next time. 0 or an error. */
int sql__run(struct sql *s, const struct sql_schema *schema, sqlite3_stmt *statement,
	     struct err *e);

/* sql__has - does it give a row? 1, 0 or an error. */
int sql__has(struct sql *s, const struct sql_schema *schema, sqlite3_stmt *statement,
	     struct err *e);

#endif
