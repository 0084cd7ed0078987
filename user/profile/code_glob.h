/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns that choose code by its module or file, as a user types them: "json", "app.*", "*_test.py". */
#ifndef PYEBPF_PROFILE_CODE_GLOB_H
#define PYEBPF_PROFILE_CODE_GLOB_H

#include <stdbool.h>

#define CODE_GLOB_MAX 255 /* bytes of a pattern */

/**
 * glob_matches - whether all of a text is what a pattern describes
 *
 * `*` stands for any bytes, `?` for one. Takes at most the product of both lengths, whatever they are:
 * the text can be one that a hostile program has made.
 */
bool glob_matches(const char *pattern, const char *text);

/**
 * code_glob_matches - whether code of this file is meant
 * @pattern: at most CODE_GLOB_MAX bytes
 * @file:    co_filename
 * @below:   the rest of it from its import root on, as place_of_file() says; or NULL
 *
 * A pattern with a slash, or that ends in ".py", is one of files: of the path, or of any end of it that
 * begins after a slash. Others are of modules: of the module, or of a package that it is in.
 */
bool code_glob_matches(const char *pattern, const char *file, const char *below);

#endif
