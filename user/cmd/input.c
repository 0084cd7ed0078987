// SPDX-License-Identifier: Apache-2.0
#include "cmd/input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/spool.h"
#include "base/text.h"
#include "decode/decode.h"
#include "import/import.h"

#define AT(member) offsetof(struct input_opts, member)

static int add_strip(void *field, const char *arg, struct err *e)
{
	struct renamer_opts *names = field;

	if (!*arg || !arg[strspn(arg, "/")])
		return err_set(e, -PYE_EUSAGE, "want a folder");
	if (names->strip_cnt == RENAMER_STRIP_MAX)
		return err_set(e, -PYE_EUSAGE, "more than %d", RENAMER_STRIP_MAX);
	names->strip[names->strip_cnt++] = arg;
	return 0;
}

/* The key is the run's: nobody can find out by trying whether a word is behind a name. */
static int set_anonymize(void *field, const char *arg, struct err *e)
{
	struct renamer_opts *names = field;

	(void)arg;
	if (getrandom(&names->key, sizeof(names->key), 0) != sizeof(names->key))
		return err_set(e, -EIO, "no random number: %s", err_str(-errno));
	names->anonymize = true;
	return 0;
}

bool input_renames(const struct input_opts *opts)
{
	return opts->names.anonymize || opts->names.strip_cnt;
}

/* clang-format off */
const struct opt_row input_rows[] = {
	{ 0, "count-time", "TIME", OPT_DURATION, AT(count_ns), "10ms",
	  "what one sample stands for where an input only counts samples", false, NULL },
	{ 0, "max-input", "SIZE", OPT_SIZE, AT(max_bytes), "4G",
	  "give up when reading takes more memory than this, 0 for no limit", false, NULL },
	{ 0 },
};
const struct opt_row names_rows[] = {
	{ 0, "strip-paths", "FOLDER", OPT_CUSTOM, AT(names), NULL,
	  "show paths below it from there on; can be repeated", false, add_strip },
	{ 0, "anonymize", NULL, OPT_CUSTOM, AT(names), NULL,
	  "replace names and paths, the same always by the same; those of the standard library stay",
	  false, set_anonymize },
	{ 0 },
};
/* clang-format on */

int input_open(const char *path, struct err *e)
{
	auto_close int fd = -1;
	char shown[512];
	struct stat st;

	fd = strcmp(path, "-") != 0 ? open(path, O_RDONLY | O_CLOEXEC)
				    : fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
	if (fd >= 0 && !fstat(fd, &st)) {
		if (!S_ISDIR(st.st_mode))
			return take_fd(&fd);
		errno = EISDIR;
	}
	text_escape(shown, sizeof(shown), path, strlen(path));
	return err_set(e, errno == EACCES ? -EACCES : -PYE_EFORMAT, "cannot read %s: %s", shown,
		       err_str(-errno));
}

/* A pipe is copied first: what is in it shows only at its beginning. */
static int seekable(int fd, int *copy)
{
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if (S_ISREG(st.st_mode))
		return fd;
	*copy = spool_copy(fd);
	return *copy < 0 || lseek(*copy, 0, SEEK_SET) == 0 ? *copy : -errno;
}

/* What the process has, as RLIMIT_DATA counts it. */
static uint64_t data_bytes(void)
{
	FILE *f = fopen("/proc/self/statm", "re");
	unsigned long pages = 0;

	if (f && fscanf(f, "%*u %*u %*u %*u %*u %lu", &pages) != 1) /* NOLINT(cert-err34-c) */
		pages = 0;
	if (f)
		fclose(f);
	return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Past it memory is refused, whoever asks for it: an input can be made so that it takes any amount. */
static bool limit_memory(uint64_t max_bytes, struct rlimit *was)
{
	struct rlimit limit;

	/* where less is allowed anyway, that is what runs out */
	if (!max_bytes || getrlimit(RLIMIT_AS, &limit) || limit.rlim_cur < max_bytes ||
	    getrlimit(RLIMIT_DATA, was))
		return false;
	limit = *was;
	limit.rlim_cur = data_bytes() + max_bytes;
	return limit.rlim_cur < was->rlim_cur && !setrlimit(RLIMIT_DATA, &limit);
}

static int read_any(int fd, const struct input_opts *opts, const struct trace_consumer *consumer,
		    void *self, struct err *e)
{
	const struct import_opts import_opts = { .count_ns = opts ? opts->count_ns : 0 };

	return decode_is_capture(fd) ? decode_file(fd, consumer, self, e)
				     : import_file(fd, &import_opts, consumer, self, e);
}

static int read_limited(int fd, const struct input_opts *opts,
			const struct trace_consumer *consumer, void *self, struct err *e)
{
	struct rlimit was;
	bool limited = opts && limit_memory(opts->max_bytes, &was);
	int err = read_any(fd, opts, consumer, self, e);

	if (!limited)
		return err;
	setrlimit(RLIMIT_DATA, &was);
	if (err != -ENOMEM)
		return err;
	return err_set(e, -PYE_EFORMAT,
		       "reading it takes more than %.0f MB of memory (--max-input)",
		       (double)opts->max_bytes / 1e6);
}

static void free_renamer(struct renamer **r)
{
	renamer__free(*r);
}

int input_read(int fd, const struct input_opts *opts, const struct trace_consumer *consumer,
	       void *self, struct err *e)
{
	auto_fn(free_renamer) struct renamer *renamer = NULL;
	auto_close int copy = -1;

	fd = seekable(fd, &copy);
	if (fd < 0)
		return fd;
	if (opts && input_renames(opts)) {
		if (renamer__new(&renamer, &opts->names, consumer, self))
			return -ENOMEM;
		consumer = &renamer_consumer;
		self = renamer;
	}
	return read_limited(fd, opts, consumer, self, e);
}

int input_explain(const char *path, struct err *e)
{
	const struct err inner = *e;

	return err_set(e, -PYE_EFORMAT, "%.200s: %s",
		       strcmp(path, "-") != 0 ? path : "standard input", inner.what);
}
