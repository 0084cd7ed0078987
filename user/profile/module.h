/* SPDX-License-Identifier: Apache-2.0 */
/* Names of modules and of functions in them, as a user types them: "json.decoder:JSONDecoder.decode". */
#ifndef PYEBPF_PROFILE_MODULE_H
#define PYEBPF_PROFILE_MODULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * module_name - the module of a file, as far as its path tells
 * @out, @size: NUL-terminated, cut to fit
 * @short_file: from its import root on (agg_func.short_file), or a whole path
 *
 * "json/decoder.py" is json.decoder, "json/__init__.py" is json, "<frozen zipimport>" is zipimport;
 * of a path without an import root only the file's own name is known: "/app/x.py" is x. What is no
 * file ("<string>") stays as it is.
 *
 * Return: @out.
 */
char *module_name(char *out, size_t size, const char *short_file);

/* A function's name as a user types it, taken apart once. */
struct func_spec {
	const char *text; /* borrowed */
	size_t len; /* without the line */
	bool has_line;
	uint32_t line;
};

/* func_spec_parse - "qualname", "mod.qualname", "mod:qualname", "path/x.py:qualname", each with ":LINE"
 * behind it if wanted. Never fails: what is no function's name matches none. */
void func_spec_parse(struct func_spec *spec, const char *text);

/**
 * func_spec_matches - whether a function is meant
 * @file, @short_file: of the function, as in struct agg_func
 *
 * A module can be given by the end of its dotted name ("decoder.loads" is json.decoder.loads), a file
 * by the end of its path.
 */
bool func_spec_matches(const struct func_spec *spec, const char *file, const char *short_file,
		       const char *qualname, uint32_t line);

/* func_spec_in_main - "__main__:qualname": @rest is then without the module. */
bool func_spec_in_main(const struct func_spec *spec, struct func_spec *rest);

/**
 * file_is_main - whether a file is the one that a process runs as its program
 * @program: a script as it was given, or with @is_module the name behind -m; "" matches none
 * @file, @short_file: as above
 */
bool file_is_main(const char *program, bool is_module, const char *file, const char *short_file);

#endif
