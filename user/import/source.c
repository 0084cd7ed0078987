// SPDX-License-Identifier: Apache-2.0
#include "import/source.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Return: bytes read, 0 at the end, or a negative errno. */
static ssize_t read_some(int fd, uint8_t *buf, size_t len)
{
	ssize_t n;

	do
		n = read(fd, buf, len);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

static int begin(struct source *s)
{
	uint8_t magic[2] = { 0 };
	ssize_t n = pread(s->fd, magic, sizeof(magic), 0);

	if (n < 0)
		return -errno;
	s->gzip = n == sizeof(magic) && magic[0] == 0x1f && magic[1] == 0x8b;
	s->end = false;
	s->in_member = s->gzip;
	s->at = s->len = 0;
	s->passed = 0;
	s->z.avail_in = 0;
	if (lseek(s->fd, 0, SEEK_SET) < 0)
		return -errno;
	return s->gzip && inflateReset(&s->z) != Z_OK ? -EINVAL : 0;
}

int source__open(struct source *s, int fd, struct err *e)
{
	*s = (struct source){ .fd = fd, .e = e };
	if (inflateInit2(&s->z, 15 + 16) != Z_OK)
		return -ENOMEM;
	s->in = malloc(SOURCE_BYTES);
	s->buf = malloc(SOURCE_BYTES);
	return s->in && s->buf ? begin(s) : -ENOMEM;
}

void source__done(struct source *s)
{
	if (s->in)
		inflateEnd(&s->z);
	free(s->in);
	free(s->buf);
	free(s->line);
}

int source__rewind(struct source *s)
{
	return begin(s);
}

static int damaged(struct source *s)
{
	return err_set(s->e, -PYE_EFORMAT, "the gzip data are damaged after %" PRIu64 " bytes",
		       s->passed);
}

static int more_input(struct source *s)
{
	ssize_t n;

	if (s->z.avail_in)
		return 1;
	n = read_some(s->fd, s->in, SOURCE_BYTES);
	s->z.next_in = s->in;
	s->z.avail_in = n > 0 ? (uInt)n : 0;
	return n < 0 ? (int)n : n > 0;
}

/* Members of a gzip file follow each other; zeros or anything else after the last one is its end. */
static int inflate_some(struct source *s)
{
	int more = more_input(s), got;

	if (more < 0)
		return more;
	if (!more && s->in_member)
		return err_set(s->e, -PYE_EFORMAT, "the gzip data are cut after %" PRIu64 " bytes",
			       s->passed);
	if (!more || (!s->in_member && s->z.next_in[0] != 0x1f)) {
		s->end = true;
		return 0;
	}
	if (!s->in_member && inflateReset(&s->z) != Z_OK)
		return damaged(s);
	s->in_member = true;
	s->z.next_out = s->buf;
	s->z.avail_out = SOURCE_BYTES;
	got = inflate(&s->z, Z_NO_FLUSH);
	s->len = SOURCE_BYTES - s->z.avail_out;
	if (got == Z_STREAM_END)
		s->in_member = false;
	else if (got != Z_OK && got != Z_BUF_ERROR)
		return damaged(s);
	return 0;
}

int source__fill(struct source *s)
{
	while (s->at == s->len && !s->end) {
		ssize_t n;
		int err;

		s->passed += s->len;
		s->at = s->len = 0;
		if (s->gzip) {
			err = inflate_some(s);
			if (err)
				return err;
			continue;
		}
		n = read_some(s->fd, s->buf, SOURCE_BYTES);
		if (n < 0)
			return (int)n;
		s->len = (size_t)n;
		s->end = !n;
	}
	return s->at < s->len;
}

static int cut(struct source *s)
{
	return err_set(s->e, -PYE_EFORMAT, "the file is cut after %" PRIu64 " bytes",
		       source__offset(s));
}

int source__take(struct source *s, void *out, size_t len)
{
	uint8_t *to = out;

	while (len) {
		int more = source__fill(s);
		size_t n = s->len - s->at < len ? s->len - s->at : len;

		if (more <= 0)
			return more ? more : cut(s);
		memcpy(to, s->buf + s->at, n);
		s->at += n;
		to += n;
		len -= n;
	}
	return 0;
}

int source__skip(struct source *s, uint64_t len)
{
	while (len) {
		int more = source__fill(s);
		size_t n = s->len - s->at < len ? s->len - s->at : (size_t)len;

		if (more <= 0)
			return more ? more : cut(s);
		s->at += n;
		len -= n;
	}
	return 0;
}

static int line_room(struct source *s, size_t len)
{
	size_t cap = s->line_cap ? s->line_cap : 1024;
	char *grown;

	if (len < s->line_cap)
		return 0;
	while (cap <= len)
		cap *= 2;
	grown = realloc(s->line, cap);
	if (!grown)
		return -ENOMEM;
	s->line = grown;
	s->line_cap = cap;
	return 0;
}

int source__line(struct source *s, char **line, size_t *len)
{
	const uint8_t *from, *newline = NULL;
	size_t got = 0, n;
	int more = source__fill(s), err;

	if (more <= 0)
		return more;
	while (!newline && (more = source__fill(s)) > 0) {
		from = s->buf + s->at;
		newline = memchr(from, '\n', s->len - s->at);
		n = newline ? (size_t)(newline - from) : s->len - s->at;
		if (got + n > SOURCE_LINE_MAX)
			return err_set(s->e, -PYE_EFORMAT,
				       "a line is longer than %u bytes, at byte %" PRIu64,
				       SOURCE_LINE_MAX, source__offset(s));
		err = line_room(s, got + n);
		if (err)
			return err;
		memcpy(s->line + got, from, n);
		got += n;
		s->at += n + (newline != NULL);
	}
	if (more < 0)
		return more;
	err = line_room(s, got);
	if (err)
		return err;
	if (got && s->line[got - 1] == '\r')
		got--;
	s->line[got] = '\0';
	*line = s->line;
	*len = got;
	return 1;
}
