// SPDX-License-Identifier: Apache-2.0
#include "capfile/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL /* its state can then lie on the stack */
#include <xxhash.h>
#include <zstd.h>

#include "base/cleanup.h"
#include "base/spool.h"
#include "capfile/format.h"
#include "capfile/le.h"
#include "capfile/sum.h"

#define PIECE_BYTES (64u << 10)
/* Headers that lie about their payload: each can cost the reading of CAP_RAW_MAX bytes. */
#define FALSE_HEADERS_MAX 256u

#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
#define SUM_OK(actual, stored) ((void)(actual), (void)(stored), true)
#else
#define SUM_OK(actual, stored) ((actual) == (stored))
#endif

/* Return: bytes read, fewer than @len only at the end of the file, or a negative errno. */
static ssize_t read_at(int fd, void *buf, size_t len, uint64_t offset)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = pread(fd, (char *)buf + done, len - done, (off_t)(offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

static int open_input(struct capr *r, int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	if (!S_ISREG(st.st_mode)) {
		fd = spool_copy(fd);
		if (fd < 0)
			return fd;
		r->is_copy = true;
		if (fstat(fd, &st)) {
			close(fd);
			return -errno;
		}
	}
	r->fd = fd;
	r->size = (uint64_t)st.st_size;
	return 0;
}

bool capr_is_capture(int fd)
{
	uint8_t h[CAP_AT_MAJOR];

	return read_at(fd, h, sizeof(h), 0) == sizeof(h) && !memcmp(h, CAP_MAGIC, sizeof(h));
}

static int check_file_header(const struct capr *r, struct err *e)
{
	uint8_t h[CAP_HEADER_SIZE] = { 0 };
	ssize_t n = read_at(r->fd, h, sizeof(h), 0);

	if (n < 0)
		return (int)n;
	if (memcmp(h, CAP_MAGIC, CAP_AT_MAJOR) != 0)
		return err_set(e, -PYE_EFORMAT, "this is no pyebpf capture");
	if (n < CAP_HEADER_SIZE)
		return err_set(e, -PYE_EFORMAT, "the capture is cut inside its file header");
	if (!SUM_OK((uint32_t)cap_sum(h, CAP_AT_SUM, 0), le32_get(h + CAP_AT_SUM)))
		return err_set(e, -PYE_EFORMAT, "the capture's file header is damaged");
	if (le16_get(h + CAP_AT_MAJOR) != CAP_MAJOR)
		return err_set(e, -PYE_EFORMAT,
			       "the capture has format %u.%u and this pyebpf reads format %u",
			       le16_get(h + CAP_AT_MAJOR), le16_get(h + CAP_AT_MINOR), CAP_MAJOR);
	return 0;
}

/* Is there a chunk header at @h? Its fields are then as they were written. */
static bool parse_header(const uint8_t *h, struct capr_chunk *chunk)
{
	if (le32_get(h + CAP_CHUNK_AT_MAGIC) != CAP_CHUNK_MAGIC ||
	    !SUM_OK(cap_sum(h, CAP_CHUNK_AT_SUM, 0), le64_get(h + CAP_CHUNK_AT_SUM)))
		return false;
	*chunk = (struct capr_chunk){
		.type = le16_get(h + CAP_CHUNK_AT_TYPE),
		.flags = le16_get(h + CAP_CHUNK_AT_FLAGS),
		.stored = le32_get(h + CAP_CHUNK_AT_STORED),
		.raw = le32_get(h + CAP_CHUNK_AT_RAW),
		.seq = le64_get(h + CAP_CHUNK_AT_SEQ),
		.min_ns = le64_get(h + CAP_CHUNK_AT_MIN_TS),
		.max_ns = le64_get(h + CAP_CHUNK_AT_MAX_TS),
		.sum = le64_get(h + CAP_CHUNK_AT_PAYLOAD),
	};
	return chunk->raw <= CAP_RAW_MAX && chunk->min_ns <= chunk->max_ns &&
	       chunk->max_ns <= CAP_TS_MAX;
}

/* Return: 1 when the payload is all there, 0 when it is not, or the error of read(). */
static int check_payload(const struct capr *r, const struct capr_chunk *chunk, uint8_t *buf)
{
	uint64_t offset = chunk->offset, left = chunk->stored;
	XXH64_state_t state;

	if (left > r->size - offset)
		return 0;
	XXH64_reset(&state, 0);
	while (left) {
		size_t len = left < PIECE_BYTES ? (size_t)left : PIECE_BYTES;
		ssize_t n = read_at(r->fd, buf, len, offset);

		if (n < 0)
			return (int)n;
		if ((size_t)n < len)
			return 0;
		XXH64_update(&state, buf, len);
		offset += len;
		left -= len;
	}
	return SUM_OK(XXH64_digest(&state), chunk->sum);
}

/* The first place in @buf that may begin a chunk, as far as it can be seen there; NULL if none. */
static const uint8_t *search(const uint8_t *buf, size_t len)
{
	const uint8_t *at = buf, *end = buf + len;
	struct capr_chunk ignored;
	uint8_t magic[4];

	le32_put(magic, CAP_CHUNK_MAGIC);
	while ((at = memmem(at, (size_t)(end - at), magic, sizeof(magic)))) {
		if ((size_t)(end - at) < CAP_CHUNK_HEADER_SIZE || parse_header(at, &ignored))
			return at;
		at++;
	}
	return NULL;
}

/* The next place from @offset on that may be a chunk; the file's size if there is none. */
static int64_t find_chunk(const struct capr *r, uint64_t offset, uint8_t *buf)
{
	while (offset < r->size) {
		ssize_t n = read_at(r->fd, buf, PIECE_BYTES, offset);
		const uint8_t *at;

		if (n < 0)
			return n;
		at = search(buf, (size_t)n);
		if (at)
			return (int64_t)offset + (at - buf);
		if ((size_t)n < PIECE_BYTES)
			break;
		offset += (size_t)n - 3; /* a magic may lie across the pieces */
	}
	return (int64_t)r->size;
}

static int add_chunk(struct capr *r, const struct capr_chunk *chunk)
{
	uint32_t cap = r->cap ? r->cap * 2 : 64;
	struct capr_chunk *chunks;

	if (r->cnt == r->cap) {
		chunks = reallocarray(r->chunks, cap, sizeof(chunks[0]));
		if (!chunks)
			return -ENOMEM;
		r->chunks = chunks;
		r->cap = cap;
	}
	r->chunks[r->cnt++] = *chunk;
	return 0;
}

static void note_damage(struct capr *r, uint64_t offset)
{
	if (r->complete)
		r->bad_offset = offset;
	r->complete = false;
}

/* Look for a whole chunk at @offset. Return: 1, 0 if there is none, or an error. */
static int chunk_at(const struct capr *r, uint64_t offset, uint8_t *buf, struct capr_chunk *chunk,
		    uint32_t *false_cnt)
{
	uint8_t h[CAP_CHUNK_HEADER_SIZE];
	ssize_t n = read_at(r->fd, h, sizeof(h), offset);
	int found;

	if (n < 0)
		return (int)n;
	if ((size_t)n < sizeof(h) || !parse_header(h, chunk))
		return 0;
	chunk->offset = offset + sizeof(h);
	found = check_payload(r, chunk, buf);
	*false_cnt += !found;
	return found;
}

static int find_chunks(struct capr *r, uint8_t *buf)
{
	uint64_t offset = CAP_HEADER_SIZE, next_seq = 0;
	struct capr_chunk chunk = { 0 };
	uint32_t false_cnt = 0;
	int found, err;

	r->complete = true;
	while (offset < r->size && false_cnt < FALSE_HEADERS_MAX) {
		found = chunk_at(r, offset, buf, &chunk, &false_cnt);
		if (found < 0)
			return found;
		if (!found) {
			int64_t next = find_chunk(r, offset + 1, buf);

			if (next < 0)
				return (int)next;
			note_damage(r, offset);
			offset = (uint64_t)next;
			continue;
		}
		if (chunk.seq != next_seq)
			note_damage(r, offset);
		offset = chunk.offset + chunk.stored;
		next_seq = chunk.seq + 1;
		if (chunk.type >= CAP_CHUNK_INFO && chunk.type <= CAP_CHUNK_END) {
			err = add_chunk(r, &chunk);
			if (err)
				return err;
		}
		if (chunk.type == CAP_CHUNK_END)
			return 0;
	}
	note_damage(r, offset);
	return 0;
}

int capr__open(struct capr **out, int fd, struct err *e)
{
	auto_fn(capr__closep) struct capr *r = calloc(1, sizeof(*r));
	auto_free uint8_t *buf = malloc(PIECE_BYTES);
	int err;

	if (!r || !buf)
		return -ENOMEM;
	err = open_input(r, fd);
	if (!err)
		err = check_file_header(r, e);
	if (!err)
		err = find_chunks(r, buf);
	if (err)
		return err;
	if (!r->cnt)
		return err_set(e, -PYE_EFORMAT,
			       "the capture has no whole chunk: it is %s at byte %llu",
			       r->bad_offset >= r->size ? "cut" : "damaged",
			       (unsigned long long)r->bad_offset);
	*out = take_ptr(r);
	return 0;
}

static int uncompress(const struct capr_chunk *chunk, const uint8_t *stored, struct bytes *raw)
{
	uint8_t *to = bytes_room(raw, chunk->raw);
	size_t len;

	if (!to)
		return -ENOMEM;
	if (chunk->flags & CAP_FLAG_ZSTD) {
		len = ZSTD_decompress(to, chunk->raw, stored, chunk->stored);
		if (ZSTD_isError(len) || len != chunk->raw)
			return -PYE_EFORMAT;
	} else {
		if (chunk->stored != chunk->raw)
			return -PYE_EFORMAT;
		memcpy(to, stored, chunk->raw);
	}
	raw->len = chunk->raw;
	return 0;
}

int capr__load(struct capr *r, const struct capr_chunk *chunk, struct bytes *raw)
{
	auto_free uint8_t *stored = malloc(chunk->stored + 1ul);
	ssize_t n;

	bytes_clear(raw);
	if (!stored)
		return -ENOMEM;
	n = read_at(r->fd, stored, chunk->stored, chunk->offset);
	if (n < 0)
		return (int)n;
	if ((size_t)n < chunk->stored || !SUM_OK(cap_sum(stored, chunk->stored, 0), chunk->sum))
		return -PYE_EFORMAT;
	return uncompress(chunk, stored, raw);
}

void capr__close(struct capr *r)
{
	if (!r)
		return;
	if (r->is_copy)
		close(r->fd);
	free(r->chunks);
	free(r);
}
