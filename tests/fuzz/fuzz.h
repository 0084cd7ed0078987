/* SPDX-License-Identifier: Apache-2.0 */
/* What every harness needs. */
#ifndef PYEBPF_FUZZ_FUZZ_H
#define PYEBPF_FUZZ_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define demand(ok)                                                       \
	do {                                                             \
		if (!(ok)) {                                             \
			fprintf(stderr, "line %d: %s\n", __LINE__, #ok); \
			abort();                                         \
		}                                                        \
	} while (0)

/* input_file - the input as a file at its beginning. */
static inline int input_file(const uint8_t *data, size_t size)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	demand(fd >= 0 && write(fd, data, size) == (ssize_t)size && lseek(fd, 0, SEEK_SET) == 0);
	return fd;
}

/* input_text - a copy with a NUL behind it, owned (free). */
static inline char *input_text(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	demand(text != NULL);
	memcpy(text, data, size);
	text[size] = '\0';
	return text;
}

#endif
