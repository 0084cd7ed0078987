// SPDX-License-Identifier: Apache-2.0
/* The store of windows: what is written is found again, with and without its catalogue; selectors; limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

#include "store/head.h"
#include "store/store.h"

#define SECOND 1000000000ll
#define T0     (1700000000 * SECOND)

struct place {
	char dir[64], store[80];
};

static int in_folder(void **state)
{
	struct place *p = calloc(1, sizeof(*p));

	strcpy(p->dir, "/tmp/pyebpf-store-XXXXXX");
	assert_non_null(mkdtemp(p->dir));
	snprintf(p->store, sizeof(p->store), "%s/windows", p->dir);
	*state = p;
	return 0;
}

static void remove_all(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	char name[512];

	while (dir && (entry = readdir(dir))) {
		snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
		unlink(name);
	}
	closedir(dir);
	rmdir(path);
}

static int out_of_folder(void **state)
{
	struct place *p = *state;

	remove_all(p->store);
	remove_all(p->dir);
	free(p);
	return 0;
}

/* --- a profile of nothing but its head --- */

struct raw {
	uint8_t data[65536];
	size_t len;
};

static void put_varint(struct raw *r, uint64_t value)
{
	for (; value > 0x7f; value >>= 7)
		r->data[r->len++] = (uint8_t)(value | 0x80);
	r->data[r->len++] = (uint8_t)value;
}

static void put_number(struct raw *r, uint32_t field, uint64_t value)
{
	put_varint(r, field << 3);
	put_varint(r, value);
}

static void put_string(struct raw *r, const char *text)
{
	put_varint(r, 6 << 3 | 2);
	put_varint(r, strlen(text));
	memcpy(r->data + r->len, text, strlen(text));
	r->len += strlen(text);
}

static struct raw profile(int64_t start_ns, int64_t end_ns, const struct store_label *labels,
			  uint32_t cnt)
{
	struct raw r = { .len = 0 };
	char text[256];

	for (uint32_t i = 0; i < cnt; i++)
		put_number(&r, 13, i + 2);
	put_string(&r, "");
	put_string(&r, "label: none=this string is no comment");
	for (uint32_t i = 0; i < cnt; i++) {
		head_comment(&labels[i], text, sizeof(text));
		put_string(&r, text);
	}
	put_number(&r, 9, (uint64_t)start_ns);
	put_number(&r, 10, (uint64_t)(end_ns - start_ns));
	return r;
}

static struct raw packed(const struct raw *plain)
{
	struct raw r = { .len = 0 };
	z_stream z = { .next_in = (uint8_t *)plain->data,
		       .avail_in = (uInt)plain->len,
		       .next_out = r.data,
		       .avail_out = sizeof(r.data) };

	assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
	assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
	r.len = z.total_out;
	deflateEnd(&z);
	return r;
}

static struct store *must_open(const struct place *p, enum store_mode mode)
{
	struct store *s = NULL;
	struct err e = { 0 };

	if (store__open(&s, p->store, mode, &e))
		fail_msg("%s", e.what);
	return s;
}

static void put(struct store *s, int64_t second, const char *service, const char *zone)
{
	const struct store_label labels[] = { { "zone", zone }, { STORE_SERVICE, service } };
	int64_t start_ns = T0 + second * SECOND, end_ns = start_ns + 60 * SECOND;
	struct raw plain = profile(start_ns, end_ns, labels, 2), gz = packed(&plain);
	struct store_file *f = NULL;
	struct err e = { 0 };

	if (store__begin(s, start_ns, end_ns, labels, 2, &f, &e) ||
	    store_file__write(f, gz.data, gz.len) || store_file__commit(f, &e))
		fail_msg("%s", e.what);
	store_file__free(f);
}

/* What a walk sees, a line each. */
static int describe(void *ctx, const struct store_window *w)
{
	char *text = ctx;
	size_t at = strlen(text);

	assert_int_equal(w->end_ns - w->start_ns, 60 * SECOND);
	assert_true(w->bytes > 20);
	snprintf(text + at, 4096 - at, "%d %s", (int)((w->start_ns - T0) / SECOND),
		 label_value(w->labels, w->label_cnt, STORE_SERVICE));
	for (uint32_t i = 0; i < w->label_cnt; i++)
		snprintf(text + strlen(text), 4096 - strlen(text), " %s=%s", w->labels[i].name,
			 w->labels[i].value);
	strcat(text, "\n");
	return 0;
}

static const char *seen(struct store *s, int64_t since, int64_t until, const char *selector)
{
	static char text[4096];
	struct selector *chosen = NULL;
	struct err e = { 0 };

	text[0] = '\0';
	assert_int_equal(selector__parse(&chosen, selector, &e), 0);
	assert_int_equal(store__each(s, T0 + since * SECOND, T0 + until * SECOND, chosen, describe,
				     text, &e),
			 0);
	selector__free(chosen);
	return text;
}

#define WEB_0 "0 web service_name=web zone=a\n"
#define DB_0  "0 db service_name=db zone=b\n"
#define WEB_1 "60 web service_name=web zone=b\n"
#define ALL   DB_0 WEB_0 WEB_1

static void fill(struct store *s)
{
	put(s, 0, "web", "a");
	put(s, 0, "db", "b");
	put(s, 60, "web", "b");
}

static void test_store__finds_what_was_written(void **state)
{
	struct store *s = must_open(*state, STORE_WRITE);

	fill(s);
	assert_string_equal(seen(s, 0, 999, ""), ALL);
	assert_string_equal(seen(s, 60, 999, ""), WEB_1);
	assert_string_equal(seen(s, 59, 60, ""), DB_0 WEB_0);
	assert_string_equal(seen(s, 0, 999, "{service_name=\"web\"}"), WEB_0 WEB_1);
	assert_string_equal(seen(s, 0, 999, "{service_name=~\"w.*\", zone!=\"a\"}"), WEB_1);
	assert_string_equal(seen(s, 0, 999, "{service_name=~\"w\"}"), "");
	assert_string_equal(seen(s, 0, 999, "{none=\"\",zone!~\"b|c\",}"), WEB_0);
	store__free(s);
	s = must_open(*state, STORE_READ);
	assert_string_equal(seen(s, 0, 999, ""), ALL);
	assert_int_equal(store__mended(s)->added, 0);
	store__free(s);
}

static void path_of(const struct place *p, const char *name, char *out)
{
	snprintf(out, 512, "%s/%s", p->store, name);
}

static void spoil(const struct place *p, const char *name, const char *text)
{
	char path[512];
	FILE *f;

	path_of(p, name, path);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void check_made_again(const struct place *p, enum store_mode mode)
{
	struct store *s = must_open(p, mode);

	assert_string_equal(seen(s, 0, 999, ""), ALL);
	assert_int_equal(store__mended(s)->added, 3);
	store__free(s);
}

/* By readers in their memory, by the writer on disk. */
static void test_store__makes_its_catalogue_again(void **state)
{
	const struct place *p = *state;
	struct store *s = must_open(p, STORE_WRITE);
	char path[512];

	fill(s);
	store__free(s);
	path_of(p, "catalogue.sqlite", path);
	spoil(p, "catalogue.sqlite",
	      "this is no database, and it is longer than a page's head is "
	      "so that SQLite can see that it is not one of its own files");
	check_made_again(p, STORE_READ);
	check_made_again(p, STORE_WRITE);
	assert_int_equal(unlink(path), 0);
	check_made_again(p, STORE_READ);
	assert_int_equal(access(path, F_OK), -1);
	check_made_again(p, STORE_WRITE);
	s = must_open(p, STORE_WRITE);
	assert_int_equal(store__mended(s)->added, 0);
	store__free(s);
}

static int first_file(void *ctx, const struct store_window *w)
{
	strcpy(ctx, w->file);
	return 1;
}

/* Killed while it wrote, a window deleted, another one copied in, one torn. */
static void test_store__mends_what_differs(void **state)
{
	const struct place *p = *state;
	struct store *s = must_open(p, STORE_WRITE);
	char name[256], path[512], path2[512];
	struct err e = { 0 };

	fill(s);
	assert_int_equal(store__each(s, INT64_MIN, INT64_MAX, NULL, first_file, name, &e), 1);
	store__free(s);
	path_of(p, name, path);
	path_of(p, "copied-from-elsewhere.pb.gz", path2);
	assert_int_equal(rename(path, path2), 0);
	spoil(p, ".pyebpf-123456.tmp", "half");
	spoil(p, "torn.pb.gz", "\x1f\x8b\x08");
	spoil(p, "notes.txt", "not ours");
	s = must_open(p, STORE_WRITE);
	assert_int_equal(store__mended(s)->added, 1);
	assert_int_equal(store__mended(s)->removed, 1);
	assert_int_equal(store__mended(s)->unreadable, 1);
	assert_non_null(strstr(seen(s, 0, 999, ""), WEB_0));
	store__free(s);
	path_of(p, ".pyebpf-123456.tmp", path);
	assert_int_equal(access(path, F_OK), -1);
	path_of(p, "notes.txt", path);
	assert_int_equal(access(path, F_OK), 0);
}

static void test_store__has_one_writer(void **state)
{
	const struct place *p = *state;
	struct store *s = must_open(p, STORE_WRITE), *other = NULL;
	struct err e = { 0 };

	assert_int_equal(store__open(&other, p->store, STORE_WRITE, &e), -PYE_EOUTPUT);
	assert_non_null(strstr(e.what, "another pyebpf writes to the store"));
	put(s, 0, "web", "a");
	other = must_open(p, STORE_READ);
	assert_string_equal(seen(other, 0, 999, ""), WEB_0);
	store__free(other);
	store__free(s);
}

static void test_store__refuses(void **state)
{
	struct store *s = must_open(*state, STORE_WRITE), *reader = must_open(*state, STORE_READ);
	const struct store_label good[] = { { STORE_SERVICE, "web" } };
	const struct store_label bad[] = { { STORE_SERVICE, "web" }, { "a-b", "" } };
	const struct store_label none[] = { { "zone", "a" } };
	struct store_file *f = NULL;
	struct err e = { 0 };

	assert_int_equal(store__begin(reader, T0, T0, good, 1, &f, &e), -PYE_EOUTPUT);
	assert_int_equal(store__begin(s, T0, T0 - 1, good, 1, &f, &e), -PYE_EOUTPUT);
	assert_int_equal(store__begin(s, T0, T0, bad, 2, &f, &e), -PYE_EOUTPUT);
	assert_int_equal(store__begin(s, T0, T0, none, 1, &f, &e), -PYE_EOUTPUT);
	store__free(reader);
	store__free(s);
}

/* A clock that was set back shows a time twice: neither window takes the place of the other. */
static void test_store__keeps_windows_of_the_same_time(void **state)
{
	struct store *s = must_open(*state, STORE_WRITE);

	put(s, 0, "web", "a");
	put(s, 0, "web", "a");
	put(s, 0, "web", "a");
	assert_string_equal(seen(s, 0, 999, ""), WEB_0 WEB_0 WEB_0);
	store__free(s);
	s = must_open(*state, STORE_READ);
	assert_string_equal(seen(s, 0, 999, ""), WEB_0 WEB_0 WEB_0);
	store__free(s);
}

static unsigned int files_in(const struct place *p)
{
	DIR *dir = opendir(p->store);
	struct dirent *entry;
	unsigned int cnt = 0;

	while ((entry = readdir(dir)))
		cnt += strstr(entry->d_name, ".pb.gz") != NULL;
	closedir(dir);
	return cnt;
}

static void test_store__keeps_its_limits(void **state)
{
	struct store *s = must_open(*state, STORE_WRITE);
	struct store_limits limits = { .max_age_ns = 100 * 60 * SECOND };
	struct store_trimmed removed = { 0 };
	struct err e = { 0 };
	int64_t now_ns = T0 + 200 * 60 * SECOND;

	for (int i = 0; i < 200; i++)
		put(s, i * 60, "web", "a");
	assert_int_equal(store__trim(s, now_ns, &limits, &removed, &e), 0);
	/* the window that ends as the limit begins stays */
	assert_int_equal(removed.by_age, 99);
	assert_int_equal(removed.by_bytes, 0);
	assert_int_equal(files_in(*state), 101);
	limits.max_bytes = removed.bytes / 99 * 10 + 5;
	assert_int_equal(store__trim(s, now_ns, &limits, &removed, &e), 0);
	assert_int_equal(removed.by_age + removed.by_bytes, 200 - files_in(*state));
	assert_in_range(files_in(*state), 9, 11);
	assert_string_equal(seen(s, 199 * 60, 99999, ""), "11940 web service_name=web zone=a\n");
	store__free(s);
}

/* Cut anywhere, or with any byte changed: an answer or a refusal. */
static void test_head__of_damaged_files(void **state)
{
	const struct store_label labels[] = { { STORE_SERVICE, "web" }, { "zone", "a" } };
	struct raw plain = profile(T0, T0 + SECOND, labels, 2);
	char path[512];
	int fd;

	mkdir(((struct place *)*state)->store, 0700);
	path_of(*state, "x", path);
	fd = open(path, O_RDWR | O_CREAT, 0600);
	for (size_t i = 0; i <= plain.len; i++) {
		struct raw cut = plain, changed = plain;

		cut.len = i;
		changed.data[i] ^= 0xff;
		for (unsigned int which = 0; which < 2; which++) {
			struct raw gz = packed(which ? &changed : &cut);
			struct head head;
			int err;

			assert_int_equal(ftruncate(fd, 0), 0);
			assert_int_equal(pwrite(fd, gz.data, gz.len, 0), gz.len);
			lseek(fd, 0, SEEK_SET);
			err = head_read(fd, &head);
			assert_true(!err || err == -PYE_EFORMAT);
			if (!err)
				assert_true(
					*label_value(head.labels, head.label_cnt, STORE_SERVICE));
			if (!which && i == plain.len) {
				assert_int_equal(err, 0);
				assert_int_equal(head.start_ns, T0);
				assert_int_equal(head.end_ns, T0 + SECOND);
				assert_int_equal(head.label_cnt, 2);
			}
			head_done(&head);
		}
	}
	close(fd);
}

static void test_selector__says_what_is_wrong(void **state)
{
	static const char *const wrong[][2] = {
		{ "x", "want { at \"x\" (character 1)" },
		{ "{a}", "want =, !=, =~ or !~ at \"}\" (character 3)" },
		{ "{a=b}", "a value in double quotes" },
		{ "{a=\"b}", "the closing quote" },
		{ "{a=\"\\x\"}", "after the backslash" },
		{ "{a=\"b\" c=\"d\"}", "want , or }" },
		{ "{a=~\"(\"}", "the expression of a (character 6): a ( without its )" },
		{ "{a=\"b\",cd!~ \"(a{1,255}){1,255}\"}",
		  "the expression of cd (character 14): it is longer than 1024 characters" },
		{ "{a=\"b\"}}", "nothing more" },
		{ "{1=\"b\"}", "the name of a label" },
		{ "{", "the name of a label" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct selector *s = NULL;
		struct err e = { 0 };

		assert_int_equal(selector__parse(&s, wrong[i][0], &e), -PYE_EUSAGE);
		if (!strstr(e.what, wrong[i][1]))
			fail_msg("%s: %s", wrong[i][0], e.what);
	}
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, in_folder, out_of_folder)
	const struct CMUnitTest tests[] = {
		IN_FOLDER(test_store__finds_what_was_written),
		IN_FOLDER(test_store__makes_its_catalogue_again),
		IN_FOLDER(test_store__mends_what_differs),
		IN_FOLDER(test_store__has_one_writer),
		IN_FOLDER(test_store__refuses),
		IN_FOLDER(test_store__keeps_windows_of_the_same_time),
		IN_FOLDER(test_store__keeps_its_limits),
		IN_FOLDER(test_head__of_damaged_files),
		cmocka_unit_test(test_selector__says_what_is_wrong),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
