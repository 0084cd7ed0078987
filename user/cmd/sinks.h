/* SPDX-License-Identifier: Apache-2.0 */
/* The sinks of a command, by options and by a file. */
#ifndef PYEBPF_CMD_SINKS_H
#define PYEBPF_CMD_SINKS_H

#include "base/yaml.h"
#include "sink/spec.h"

#define SINK_HELP                                                                                                              \
	"send the profiles there: clickhouse=http://host:8123, pyroscope=, parca= or otlp=, with ,KEY=VALUE behind it: name, " \
	"database, user, tenant, password-file, token-file, ca-file, cert-file, key-file, insecure, "                          \
	"timeout, max-age, max-backoff, interval; can be repeated"

/* sinks_option - an opt_row's parse; the field is a struct sink_list. */
int sinks_option(void *field, const char *arg, struct err *e);

/* sinks_read - the list "sinks" of a file: maps with type, url and the same keys. 0 or -PYE_EUSAGE with a sentence. */
int sinks_read(struct sink_list *list, const struct yaml_node *node, struct err *e);

#endif
