// SPDX-License-Identifier: Apache-2.0
/* The command table and its dispatch. A sub-command is one file in cmd/ and one line here. */
#include <stdio.h>

int main(void)
{
	fputs("pyebpf " PYEBPF_VERSION "\n", stdout);
	return 0;
}
