/* SPDX-License-Identifier: Apache-2.0 */
/* A capture file from any bytes. */
#ifndef PYEBPF_FUZZ_CAPTURE_INPUT_H
#define PYEBPF_FUZZ_CAPTURE_INPUT_H

#include "capfile/format.h"
#include "capfile/le.h"
#include "fuzz.h"

enum {
	CAPTURE_CHUNKS_MAX = 64
};

static inline void capture_put(int fd, const void *data, size_t len)
{
	demand(write(fd, data, len) == (ssize_t)len);
}

static inline void capture_put_chunk(int fd, uint64_t seq, uint8_t how, const uint8_t *payload,
				     uint32_t len)
{
	uint8_t h[CAP_CHUNK_HEADER_SIZE] = { 0 };

	le32_put(h + CAP_CHUNK_AT_MAGIC, CAP_CHUNK_MAGIC);
	le16_put(h + CAP_CHUNK_AT_TYPE, how & 0x40 ? how & 3 : CAP_CHUNK_DATA);
	le32_put(h + CAP_CHUNK_AT_STORED, len);
	le32_put(h + CAP_CHUNK_AT_RAW, len);
	le64_put(h + CAP_CHUNK_AT_SEQ, seq);
	le64_put(h + CAP_CHUNK_AT_MIN_TS, how & 0x3c);
	le64_put(h + CAP_CHUNK_AT_MAX_TS, CAP_TS_MAX);
	capture_put(fd, h, sizeof(h));
	capture_put(fd, payload, len);
}

/* The bytes cut into payloads, two bytes of length before each and one of type and time, that get good
 * headers, so that mutations reach what they hold: a file at its beginning. */
static inline int capture_of_payloads(const uint8_t *data, size_t size)
{
	uint8_t h[CAP_HEADER_SIZE] = CAP_MAGIC;
	int fd = input_file(h, 0);

	le16_put(h + CAP_AT_MAJOR, CAP_MAJOR);
	capture_put(fd, h, sizeof(h));
	for (uint64_t seq = 0; size >= 3 && seq < CAPTURE_CHUNKS_MAX; seq++) {
		uint32_t len = le16_get(data);
		uint8_t how = data[2];

		data += 3;
		size -= 3;
		if (len > size)
			len = (uint32_t)size;
		capture_put_chunk(fd, seq, how, data, len);
		data += len;
		size -= len;
	}
	demand(lseek(fd, 0, SEEK_SET) == 0);
	return fd;
}

/* capture_input - the first byte chooses: 0 to 127, the rest is a file as it stands (checksums are not looked
 * at in this build), otherwise payloads. @size > 0 */
static inline int capture_input(const uint8_t *data, size_t size)
{
	return data[0] < 128 ? input_file(data + 1, size - 1)
			     : capture_of_payloads(data + 1, size - 1);
}

#endif
