/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands read that work on files: a capture, by its name, or - for standard input. */
#ifndef PYEBPF_CMD_INPUT_H
#define PYEBPF_CMD_INPUT_H

#include "base/err.h"

/**
 * input_open - open an input
 * @path: "-" is standard input
 *
 * Return: a file descriptor, the caller's; -PYE_EFORMAT or -EACCES with a sentence.
 */
int input_open(const char *path, struct err *e);

/* input_explain - put the input's name before the sentence of what is wrong in it. -PYE_EFORMAT. */
int input_explain(const char *path, struct err *e);

#endif
