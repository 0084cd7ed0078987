/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages to stderr. stdout carries data only. Library folders log at debug level only; a file
 * names its domain with `#define LOG_DOMAIN "cpython"` before including this. Every string that
 * comes from a target goes through text_escape() (base/text.h) before it gets here.
 */
#ifndef PYEBPF_BASE_LOG_H
#define PYEBPF_BASE_LOG_H

#ifndef LOG_DOMAIN
#define LOG_DOMAIN "pyebpf"
#endif

enum log_level {
	LOG_ERR,
	LOG_WARN,
	LOG_INFO,
	LOG_DEBUG
};

/* log_set_level - messages above @level are not shown; LOG_INFO at start. */
void log_set_level(enum log_level level);

void log_msg(enum log_level level, const char *domain, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#define log_err(...)   log_msg(LOG_ERR, LOG_DOMAIN, __VA_ARGS__)
#define log_warn(...)  log_msg(LOG_WARN, LOG_DOMAIN, __VA_ARGS__)
#define log_info(...)  log_msg(LOG_INFO, LOG_DOMAIN, __VA_ARGS__)
#define log_debug(...) log_msg(LOG_DEBUG, LOG_DOMAIN, __VA_ARGS__)

#endif
