/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a file of Python code lies, told by the shape of its path alone: that is the same in every
 * layout (a distribution's, pyenv's, a venv's, an unpacked one run through its loader), known for the
 * first function of a process already, and needs nothing of the process.
 */
#ifndef PYEBPF_PROFILE_PLACE_H
#define PYEBPF_PROFILE_PLACE_H

enum place {
	PLACE_ELSEWHERE, /* what the user wrote, or cannot be told from that */
	PLACE_STDLIB, /* lib/python3.N, lib64/python3.Nt, lib/python3N.zip */
	PLACE_PACKAGES, /* site-packages, dist-packages */
};

/**
 * place_of_file - which of these, and the path from that folder on
 * @file:  co_filename; not one in angle brackets
 * @below: set to the rest of @file, as an import would see it; to NULL elsewhere
 */
enum place place_of_file(const char *file, const char **below);

/* place_short_file - @file, or what is below these folders of it */
const char *place_short_file(const char *file);

#endif
