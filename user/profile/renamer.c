// SPDX-License-Identifier: Apache-2.0
#include "profile/renamer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/strpool.h"
#include "profile/forward.h"
#include "profile/place.h"

enum {
	ROOTS_MAX = 256,
	WORD_CHARS =
		8, /* of five bits each: two of a million words are the same once in two such programs */
	NAME_BYTES = 1 + WORD_CHARS
};

/* A text that grows; it stays for the next one. */
struct scratch {
	char *s;
	size_t len, cap;
};

struct renamer {
	struct forward next; /* first */
	const struct renamer_opts *opts;
	struct strpool texts; /* what was handed on: borrowed by the consumer for a call */
	struct scratch out;
	const char *roots[ROOTS_MAX + 1];
};

/* clang-format off */
static const char *const known_parts[] = { /* of dotted names */
	"<module>", "<lambda>", "<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>", "<locals>", "main", "run",
	"__init__", "__new__", "__del__", "__call__", "__main__", "__repr__", "__str__", "__len__", "__iter__",
	"__next__", "__enter__", "__exit__", "__aenter__", "__aexit__", "__aiter__", "__anext__", "__await__",
	"__eq__", "__lt__", "__hash__", "__bool__", "__contains__", "__getattr__", "__setattr__", "__getattribute__",
	"__getitem__", "__setitem__", "__delitem__", "__get__", "__set__", "__set_name__", "__init_subclass__",
	"__class_getitem__", "__add__", "__sub__", "__mul__", "__import__", "__build_class__",
};
static const char *const known_pieces[] = { /* of paths */
	".", "..", "usr", "bin", "lib", "lib32", "lib64", "libx32", "site-packages", "dist-packages", "__pycache__",
	"__init__.py", "__main__.py", "~",
};
static const char *const known_files[] = { /* that are none */
	"<string>", "<stdin>", "<frozen importlib._bootstrap>", "<frozen importlib._bootstrap_external>",
	"<frozen zipimport>", "<frozen runpy>", "<frozen os>", "<frozen codecs>", "<frozen abc>", "<frozen site>",
	"[unreadable]", "[kernel]", "[vdso]",
};
static const char *const known_marks[] = { /* what stands for a function that is not known */
	"[truncated]", "[unknown]", "[no Python]", "[no Python frame]", "[unreadable]", "[unreadable code object]",
	"[unreadable: page fault]", "[unreadable: caller of a generator]", "[truncated: too deep]",
	"[truncated: frames in between]", "[truncated: native frames]", "[not sampled: waits too often]",
	"[native frames missing: no frame pointer]", "[native frames missing: page fault]",
	"[code without a file]", "[vdso]", "[kernel]",
};
static const char *const known_threads[] = { "MainThread", "main", "Thread" };
static const char *const own_files[] = { /* beginnings of names of files that come with every Python */
	"python", "libpython", "libc.so", "libc-", "libpthread", "libm.so", "ld-linux",
};
static const char *const extensions[] = { ".py", ".pyc", ".pyx", ".so", ".html", ".js" };
/* clang-format on */

#define IS_ONE(list, s, len) is_one(list, sizeof(list) / sizeof(*(list)), s, len)

static bool is_one(const char *const *list, size_t cnt, const char *s, size_t len)
{
	for (size_t i = 0; i < cnt; i++) {
		if (strlen(list[i]) == len && !memcmp(list[i], s, len))
			return true;
	}
	return false;
}

/* Version numbers at most behind such a beginning: "python3.11", "libpython3.13t.so.1.0", "libc.so.6". */
static bool is_own_file(const char *s, size_t len)
{
	for (size_t i = 0; i < sizeof(own_files) / sizeof(*own_files); i++) {
		size_t n = strlen(own_files[i]);

		if (len < n || memcmp(s, own_files[i], n) != 0)
			continue;
		for (; n < len && strchr("0123456789.-_tdsox86", s[n]); n++)
			;
		if (n == len)
			return true;
	}
	return false;
}

static int put(struct scratch *to, const char *s, size_t len)
{
	if (to->len + len + 1 > to->cap) {
		size_t cap = 2 * (to->len + len) + 256;
		char *grown = realloc(to->s, cap);

		if (!grown)
			return -ENOMEM;
		to->s = grown;
		to->cap = cap;
	}
	memcpy(to->s + to->len, s, len);
	to->len += len;
	to->s[to->len] = '\0';
	return 0;
}

static int put_word(struct renamer *r, const char *s, size_t len)
{
	uint64_t hash = siphash(&r->opts->key, s, len);
	char name[NAME_BYTES] = "x";

	for (int i = 1; i < NAME_BYTES; i++, hash >>= 5)
		name[i] = "abcdefghijklmnopqrstuvwxyz234567"[hash & 31];
	return put(&r->out, name, sizeof(name));
}

/* As it is if it is one of those that everybody has; in angle brackets if it was. */
static int put_part(struct renamer *r, const char *s, size_t len)
{
	bool brackets = len > 1 && s[0] == '<' && s[len - 1] == '>';
	int err = 0;

	if (!len || IS_ONE(known_parts, s, len))
		return put(&r->out, s, len);
	if (brackets)
		err = put(&r->out, "<", 1);
	err = err ? err : put_word(r, s, len);
	return err || !brackets ? err : put(&r->out, ">", 1);
}

static int put_dotted(struct renamer *r, const char *s)
{
	int err = 0;

	for (;;) {
		/* "<frozen a.b>" is one part */
		size_t len = *s == '<' ? strcspn(s, ">") : 0;

		len += strcspn(s + len, ".");
		err = put_part(r, s, len);
		s += len;
		if (err || !*s)
			return err;
		err = put(&r->out, s++, 1);
		if (err)
			return err;
	}
}

static int put_piece(struct renamer *r, const char *s, size_t len)
{
	if (!len || IS_ONE(known_pieces, s, len) || is_own_file(s, len))
		return put(&r->out, s, len);
	for (size_t i = 0; i < sizeof(extensions) / sizeof(*extensions); i++) {
		size_t n = strlen(extensions[i]);
		int err;

		if (len <= n || memcmp(s + len - n, extensions[i], n) != 0)
			continue;
		err = put_word(r, s, len - n);
		return err ? err : put(&r->out, extensions[i], n);
	}
	return put_word(r, s, len);
}

/* @end: of the pieces to replace. */
static int put_pieces(struct renamer *r, const char *s, const char *end)
{
	int err = 0;

	while (!err && s < end) {
		size_t len = strcspn(s, "/");

		err = put_piece(r, s, s + len < end ? len : (size_t)(end - s));
		s += len;
		if (!err && s < end)
			err = put(&r->out, s++, 1);
	}
	return err;
}

static bool is_known_file(const char *path)
{
	return IS_ONE(known_files, path, strlen(path));
}

static bool is_stdlib(const char *path, const char **below)
{
	*below = NULL;
	return *path != '<' && place_of_file(path, below) == PLACE_STDLIB;
}

static int put_path(struct renamer *r, const char *path)
{
	const char *below;
	int err;

	if (!*path || is_known_file(path))
		return put(&r->out, path, strlen(path));
	if (*path == '<')
		return put_part(r, path, strlen(path));
	if (!is_stdlib(path, &below))
		return put_pieces(r, path, path + strlen(path));
	err = put_pieces(r, path, below);
	return err ? err : put(&r->out, below, strlen(below));
}

/* The text at hand, for as long as the renamer is. */
static const char *keep(struct renamer *r, int err)
{
	uint32_t id;

	if (err || strpool__add(&r->texts, r->out.s ? r->out.s : "", r->out.len, &id))
		return NULL;
	return strpool__get(&r->texts, id);
}

/* Below the longest folder that is to go. */
static const char *stripped(const struct renamer *r, const char *path)
{
	const char *best = path;

	for (uint32_t i = 0; i < r->opts->strip_cnt; i++) {
		const char *folder = r->opts->strip[i];
		size_t len = strlen(folder);

		while (len && folder[len - 1] == '/')
			len--;
		if (!len || strncmp(path, folder, len) != 0 || (path[len] && path[len] != '/'))
			continue;
		len += strspn(path + len, "/");
		if (path + len > best)
			best = path + len;
	}
	return best;
}

/* NULL: no memory. */
static const char *path_of(struct renamer *r, const char *path)
{
	path = stripped(r, path);
	if (!r->opts->anonymize)
		return path;
	r->out.len = 0;
	return keep(r, put_path(r, path));
}

/* What the number at its end tells apart stays so: "worker-1", "worker-2". */
static const char *name_of(struct renamer *r, const char *name)
{
	size_t len = strlen(name), stem = len;
	int err;

	if (!r->opts->anonymize || !len || is_own_file(name, len))
		return name;
	while (stem && strchr("0123456789-_", name[stem - 1]))
		stem--;
	r->out.len = 0;
	err = IS_ONE(known_threads, name, stem) || !stem ? put(&r->out, name, stem)
							 : put_word(r, name, stem);
	err = err ? err : put(&r->out, name + stem, len - stem);
	return keep(r, err);
}

static int on_begin(void *self, const struct trace_info *info)
{
	struct renamer *r = self;
	struct trace_info other = *info;

	if (r->opts->anonymize)
		other.hostname = other.arguments = "";
	return forward_begin(r, &other);
}

static int on_process(void *self, const struct trace_process *process)
{
	struct renamer *r = self;
	struct trace_process other = *process;
	uint32_t cnt = 0;

	other.comm = name_of(r, process->comm);
	other.exe = path_of(r, process->exe);
	other.prefix = path_of(r, process->prefix);
	for (; process->import_roots && process->import_roots[cnt] && cnt < ROOTS_MAX; cnt++) {
		r->roots[cnt] = path_of(r, process->import_roots[cnt]);
		if (!r->roots[cnt])
			return -ENOMEM;
	}
	r->roots[cnt] = NULL;
	other.import_roots = process->import_roots ? r->roots : NULL;
	if (!other.comm || !other.exe || !other.prefix)
		return -ENOMEM;
	return forward_process(r, &other);
}

static int on_thread(void *self, const struct trace_thread *thread)
{
	struct renamer *r = self;
	struct trace_thread other = *thread;

	other.name = name_of(r, thread->name);
	return other.name ? forward_thread(r, &other) : -ENOMEM;
}

/* Whether everybody has that function. */
static bool is_public(const struct trace_func *f)
{
	const char *file = strrchr(f->file, '/'), *below;

	file = file ? file + 1 : f->file;
	if (IS_ONE(known_marks, f->qualname, strlen(f->qualname)))
		return true;
	if (f->kind == FUNC_KERNEL)
		return true;
	if (f->kind == FUNC_NATIVE)
		return is_known_file(f->file) || is_own_file(file, strlen(file));
	return is_stdlib(f->file, &below) ||
	       (!strncmp(f->file, "<frozen ", 8) && is_known_file(f->file));
}

static int on_func(void *self, const struct trace_func *func)
{
	struct renamer *r = self;
	struct trace_func other = *func;

	if (!r->opts->anonymize || func->kind != FUNC_KERNEL)
		other.file = path_of(r, func->file);
	if (r->opts->anonymize && !is_public(func)) {
		r->out.len = 0;
		other.qualname = keep(r, put_dotted(r, func->qualname));
		r->out.len = 0;
		other.name = keep(r, put_dotted(r, func->name));
	}
	if (!other.file || !other.qualname || !other.name)
		return -ENOMEM;
	return forward_func(r, &other);
}

int renamer__new(struct renamer **out, const struct renamer_opts *opts,
		 const struct trace_consumer *to, void *self)
{
	struct renamer *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	r->next = (struct forward){ to, self };
	r->opts = opts;
	if (strpool__init(&r->texts)) {
		renamer__free(r);
		return -ENOMEM;
	}
	*out = r;
	return 0;
}

void renamer__free(struct renamer *r)
{
	if (!r)
		return;
	strpool__done(&r->texts);
	free(r->out.s);
	free(r);
}

const struct trace_consumer renamer_consumer = {
	.begin = on_begin,
	.process = on_process,
	.thread = on_thread,
	.func = on_func,
	.event = forward_event,
	.sample = forward_sample,
	.memory = forward_memory,
	.gap = forward_gap,
	.end = forward_end,
};
