// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/siphash.h"

/* The key 00 01 .. 0f and the messages "", 00, 00 01, ... of the paper's reference vectors. */
static void test_siphash__of_the_paper(void **state)
{
	static const struct {
		size_t len;
		uint64_t hash;
	} vectors[] = {
		{ 0, 0x726fdb47dd0e0e31 }, { 1, 0x74f839c593dc67fd },  { 7, 0xab0200f58b01d137 },
		{ 8, 0x93f5f5799a932462 }, { 15, 0xa129ca6149be45e5 },
	};
	const struct siphash_key key = { 0x0706050403020100, 0x0f0e0d0c0b0a0908 };
	uint8_t message[16];

	(void)state;
	for (size_t i = 0; i < sizeof(message); i++)
		message[i] = (uint8_t)i;
	for (size_t i = 0; i < sizeof(vectors) / sizeof(*vectors); i++)
		assert_true(siphash(&key, message, vectors[i].len) == vectors[i].hash);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_siphash__of_the_paper) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
