// SPDX-License-Identifier: Apache-2.0
/* What the API server says of pods, in pieces of any size; what is made of it; and the table of them. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "kube/parse.h"
#include "kube/table.h"

#define ID  "0123456789ab4444555566667777888899990000aaaabbbbccccddddeeeeffff"
#define ID2 "ba9876543210444455556666777788889999000011112222333344445555abcd"

#define POD                                                                                                \
	"{\"kind\":\"Pod\",\"metadata\":{\"name\":\"web-6d4-x2\",\"namespace\":\"shop\",\"uid\":\"u-1\","  \
	"\"resourceVersion\":\"77\",\"labels\":{\"app.kubernetes.io/name\":\"web\",\"pod-template-hash\":" \
	"\"6d4\",\"n\":3,\"bad\":{\"x\":\"y\"}},\"annotations\":{\"pyebpf.io/enabled\":\"true\"},"         \
	"\"ownerReferences\":[{\"kind\":\"Other\",\"name\":\"no\"},{\"kind\":\"ReplicaSet\",\"name\":"     \
	"\"web-6d4\",\"controller\":true}]},\"spec\":{\"nodeName\":\"n1\",\"containers\":[{\"name\":"      \
	"\"app\",\"env\":[{\"name\":\"image\",\"value\":\"x\"}],\"image\":\"r:5000/a/b:1.2@sha256:9\","    \
	"\"ports\":[{\"name\":\"http\"}]},{\"image\":\"side\",\"name\":\"side\"}]},\"status\":{\"phase\":" \
	"\"Running\",\"containerStatuses\":[{\"containerID\":\"containerd://" ID                           \
	"\",\"name\":\"app\","                                                                             \
	"\"lastState\":{\"terminated\":{\"containerID\":\"cri-o://" ID2                                    \
	"\"}}},{\"name\":\"side\"}]}}"

struct seen {
	char text[2048];
	size_t len;
};

static void note(struct seen *s, const char *before, const struct kube_bytes *bytes)
{
	struct kube_workload w;
	struct kube_pod pod;
	int err = kube_pod_read(bytes->at, bytes->len, &pod);

	if (err) {
		s->len += (size_t)snprintf(s->text + s->len, sizeof(s->text) - s->len, "%s none;",
					   before);
		return;
	}
	kube_workload_of(&pod, &w);
	s->len += (size_t)snprintf(s->text + s->len, sizeof(s->text) - s->len,
				   "%s %s/%s %s %s %s %s/%s %u", before, pod.ns, pod.name, pod.uid,
				   pod.node, pod.phase, w.kind, w.name, pod.label_cnt);
	for (uint32_t i = 0; i < pod.container_cnt; i++)
		s->len += (size_t)snprintf(s->text + s->len, sizeof(s->text) - s->len, " %s=%.4s",
					   pod.containers[i].name, pod.containers[i].value);
	for (uint32_t i = 0; i < pod.image_cnt; i++)
		s->len += (size_t)snprintf(s->text + s->len, sizeof(s->text) - s->len, " %s:%s",
					   pod.images[i].name, pod.images[i].value);
	s->len += (size_t)snprintf(s->text + s->len, sizeof(s->text) - s->len, ";");
}

static int on_pod(void *ctx, const struct kube_bytes *pod)
{
	note(ctx, "pod", pod);
	return 0;
}

static int on_gone(void *ctx, const struct kube_bytes *pod)
{
	note(ctx, "gone", pod);
	return 0;
}

/* Result of it all; what was seen, and the version. */
static int parse(enum kube_answer answer, const char *text, size_t piece, struct seen *seen,
		 char *version, char *reason)
{
	const struct kube_listener listener = { seen, on_pod, on_gone };
	struct kube_parse *p;
	struct err e = { 0 };
	size_t len = strlen(text);
	int err = 0;

	*seen = (struct seen){ 0 };
	assert_int_equal(kube_parse__new(&p, answer, &listener, &e), 0);
	for (size_t at = 0, err_now = 0; at < len && !err_now; at += piece) {
		err = kube_parse__put(p, text + at, len - at < piece ? len - at : piece);
		err_now = err != 0;
	}
	if (!err && answer != KUBE_WATCH)
		err = kube_parse__end(p);
	snprintf(version, KUBE_VERSION_MAX, "%s", kube_parse__version(p));
	snprintf(reason, 256, "%s", kube_parse__reason(p));
	if (err == -PYE_EFORMAT)
		assert_true(e.what[0] != '\0');
	kube_parse__free(p);
	return err;
}

#define SEEN(before) \
	before " shop/web-6d4-x2 u-1 n1 Running Deployment/web 2 app=0123 app=ba98 app:r:5000/a/b:1.2@sha256:9 side:side;"

static void test_kube__answers(void **state)
{
	/* clang-format off */
	static const struct {
		enum kube_answer answer;
		const char *text;
		int err;
		const char *seen, *version, *reason;
	} cases[] = {
		{ KUBE_ONE, POD, 0, SEEN("pod"), "77", "" },
		{ KUBE_LIST, "{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"900\"},\"items\":[" POD "," POD "]}", 0,
		  SEEN("pod") SEEN("pod"), "900", "" },
		{ KUBE_LIST, "{\"metadata\":{\"resourceVersion\":\"5\"},\"items\":null}", 0, "", "5", "" },
		{ KUBE_WATCH, "{\"type\":\"ADDED\",\"object\":" POD "}\n{\"object\":" POD ",\"type\":\"DELETED\"}\n"
		  "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Pod\",\"metadata\":{\"resourceVersion\":\"99\"}}}\n", 0,
		  SEEN("pod") SEEN("gone"), "99", "" },
		{ KUBE_WATCH, "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"message\":\"too old\",\"code\":410}}\n", -ESTALE,
		  "", "", "too old" },
		{ KUBE_WATCH, "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"reason\":\"Broken\",\"code\":500}}\n", -PYE_EFORMAT,
		  "", "", "Broken" },
		{ KUBE_WATCH, "{\"type\":\"NEW\",\"object\":" POD "}\n", 0, "", "77", "" },
		{ KUBE_ONE, "{\"kind\":\"Status\",\"message\":\"no such pod\",\"code\":404,\"metadata\":{}}", 0, "", "", "no such pod" },
		{ KUBE_LIST, "{\"kind\":\"Status\",\"message\":\"forbidden\",\"code\":403,\"metadata\":{}}", 0, "", "", "forbidden" },
		/* nobody's pods */
		{ KUBE_LIST, "{\"items\":[{},{\"metadata\":{\"name\":\"x\"}},[{\"metadata\":{}}],3,null]}", 0, "pod none;pod none;", "", "" },
		{ KUBE_ONE, "[1,2,{\"kind\":\"Pod\"}]", 0, "", "", "" },
		{ KUBE_WATCH, "3 \"x\" [] {} {\"type\":3,\"object\":[]}\n", 0, "", "", "" },
		{ KUBE_WATCH, "{\"type\":\"ADDED\"}\n", 0, "pod none;", "", "" },
		{ KUBE_LIST, "{\"items\":[" POD, -PYE_EFORMAT, SEEN("pod"), "", "" },
		{ KUBE_LIST, "<html>", -PYE_EFORMAT, "", "", "" },
		/* a member whose name has dots is no path */
		{ KUBE_ONE, "{\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\",\"namespace\":\"b\",\"uid\":\"c\",\"labels\":{\"x\\u0000y\":\"1\","
		  "\"k\":\"a\\u0000b\",\"ok\":\"1\"}}}", 0, "pod b/a c   Pod/a 1;", "", "" },
	};
	/* clang-format on */
	char version[KUBE_VERSION_MAX], reason[256];
	struct seen seen;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (size_t piece = 1; piece < 4096; piece = piece * 3 + 4) {
			int err = parse(cases[i].answer, cases[i].text, piece, &seen, version,
					reason);

			assert_int_equal(err, cases[i].err);
			assert_string_equal(seen.text, cases[i].seen);
			assert_string_equal(version, cases[i].version);
			assert_string_equal(reason, cases[i].reason);
		}
}

static int count_pod(void *ctx, const struct kube_bytes *pod)
{
	struct kube_pod read;

	assert_int_equal(kube_pod_read(pod->at, pod->len, &read), 0);
	assert_true(read.label_cnt == KUBE_PAIRS_MAX && read.container_cnt <= KUBE_CONTAINERS_MAX);
	(*(unsigned int *)ctx)++;
	return 0;
}

/* More of everything than there is room for. */
static void test_kube__large(void **state)
{
	size_t size = 1 << 20, len = 0;
	char *text = malloc(size);
	unsigned int cnt = 0;
	const struct kube_listener listener = { &cnt, count_pod, count_pod };
	struct kube_parse *p;
	struct err e = { 0 };

	(void)state;
	assert_non_null(text);
	len += (size_t)snprintf(text, size,
				"{\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\",\"namespace\":"
				"\"b\",\"uid\":\"c\",\"labels\":{");
	for (int i = 0; i < 500; i++)
		len += (size_t)snprintf(text + len, size - len, "%s\"k%0*d\":\"v\"", i ? "," : "",
					i % 7 == 6 ? 600 : 3, i);
	len += (size_t)snprintf(text + len, size - len, "}},\"status\":{\"containerStatuses\":[");
	for (int i = 0; i < 500; i++)
		len += (size_t)snprintf(text + len, size - len,
					"%s{\"name\":\"c%d\",\"containerID\":\"x://%064d\"}",
					i ? "," : "", i, i);
	len += (size_t)snprintf(text + len, size - len, "]}}");
	assert_int_equal(kube_parse__new(&p, KUBE_ONE, &listener, &e), 0);
	assert_int_equal(kube_parse__put(p, text, len), 0);
	assert_int_equal(kube_parse__end(p), 0);
	assert_int_equal(cnt, 1);
	kube_parse__free(p);
	free(text);
}

static struct kube_bytes made(const char *uid, const char *id)
{
	struct kube_bytes b = { .len = 0 };

	assert_true(kube_bytes_add(&b, KUBE_NAMESPACE, "ns", 2, "", 0));
	assert_true(kube_bytes_add(&b, KUBE_NAME, "pod", 3, "", 0));
	assert_true(kube_bytes_add(&b, KUBE_UID, uid, strlen(uid), "", 0));
	if (id)
		assert_true(kube_bytes_add(&b, KUBE_CONTAINER, "app", 3, id, strlen(id)));
	return b;
}

static void test_kube__bytes(void **state)
{
	struct kube_bytes b = made("u", ID);
	struct kube_pod pod;
	char text[KUBE_TEXT_MAX + 1];

	(void)state;
	memset(text, 'x', sizeof(text));
	assert_false(kube_bytes_add(&b, KUBE_LABEL, text, sizeof(text), "", 0));
	assert_false(kube_bytes_add(&b, KUBE_LABEL, "a\0b", 3, "", 0));
	assert_int_equal(kube_pod_read(b.at, b.len, &pod), 0);
	assert_string_equal(pod.containers[0].value, ID);
	/* each beginning of it is refused, or a pod without what follows */
	for (size_t len = 0; len < b.len; len++)
		assert_true(kube_pod_read(b.at, len, &pod) == -PYE_EFORMAT || !pod.container_cnt);
	b.at[0] = '?';
	assert_int_equal(kube_pod_read(b.at, b.len, &pod), -PYE_EFORMAT);
	b = made("u", "containerd://../../etc");
	assert_int_equal(kube_pod_read(b.at, b.len, &pod), 0);
	assert_int_equal(pod.container_cnt, 0);
}

static void test_kube__workload(void **state)
{
	/* clang-format off */
	static const struct {
		const char *kind, *owner, *label, *hash, *want;
	} cases[] = {
		{ "ReplicaSet", "web-6d4cf56db6", "pod-template-hash", "6d4cf56db6", "Deployment web" },
		{ "ReplicaSet", "web-6d4", "pod-template-hash", "other", "ReplicaSet web-6d4" },
		{ "ReplicaSet", "web", "", "", "ReplicaSet web" },
		{ "ReplicaSet", "-6d4", "pod-template-hash", "6d4", "ReplicaSet -6d4" },
		{ "ReplicaSet", "web-77f", "rollouts-pod-template-hash", "77f", "Rollout web" },
		{ "StatefulSet", "db", "", "", "StatefulSet db" }, { "DaemonSet", "log", "", "", "DaemonSet log" },
		{ "Job", "backup-29412360", "", "", "CronJob backup" }, { "Job", "backup-2941236", "", "", "Job backup-2941236" },
		{ "Job", "29412360", "", "", "Job 29412360" }, { "Node", "n1", "", "", "Pod etcd" },
		{ "", "", "", "", "Pod etcd-n1" }, { "Node", "n2", "", "", "Pod etcd-n1" },
	};
	static const char *const tags[][2] = {
		{ "a:1.2", "1.2" }, { "r:5000/a", "" }, { "r:5000/a:7@sha256:ab", "7" }, { "a@sha256:ab", "" }, { "", "" }, { ":", "" }, { "a:", "" },
	};
	/* clang-format on */

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct kube_pod pod = { .name = "etcd-n1",
					.owner = { cases[i].kind, cases[i].owner },
					.labels = { { cases[i].label, cases[i].hash } },
					.label_cnt = 1 };
		struct kube_workload w;
		char got[600];

		kube_workload_of(&pod, &w);
		snprintf(got, sizeof(got), "%s %s", w.kind, w.name);
		assert_string_equal(got, cases[i].want);
	}
	for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++) {
		size_t len;
		const char *tag = kube_image_tag(tags[i][0], &len);

		assert_int_equal(len, strlen(tags[i][1]));
		assert_memory_equal(tag, tags[i][1], len);
	}
}

static void test_kube__table(void **state)
{
	struct kube_bytes first = made("u1", ID), second = made("u2", NULL),
			  again = made("u1", ID2);
	struct kube_table *t;
	const char *container;
	struct kube_pod pod;

	(void)state;
	assert_int_equal(kube_table__new(&t), 0);
	assert_int_equal(kube_table__put(t, first.at, first.len, false, 1), 0);
	assert_int_equal(kube_table__put(t, second.at, second.len, false, 1), 0);
	assert_int_equal(kube_table__put(t, "x", 1, false, 1), -PYE_EFORMAT);
	assert_true(kube_table__find(t, ID, "", &pod, &container));
	assert_string_equal(pod.uid, "u1");
	assert_string_equal(container, "app");
	assert_false(kube_table__find(t, ID2, "", &pod, &container));
	assert_true(kube_table__find(t, ID2, "u2", &pod, &container));
	assert_string_equal(pod.uid, "u2");
	/* a container that was replaced is still known */
	assert_int_equal(kube_table__put(t, again.at, again.len, false, 2), 0);
	assert_true(kube_table__find(t, ID, "", &pod, &container));
	assert_true(kube_table__find(t, ID2, "", &pod, &container));
	/* those that a whole list does not name are gone, and are kept until then */
	kube_table__begin(t);
	assert_int_equal(kube_table__put(t, second.at, second.len, false, 3), 0);
	assert_int_equal(kube_table__cnt(t), 2);
	kube_table__end(t, 3);
	assert_int_equal(kube_table__cnt(t), 1);
	assert_true(kube_table__find(t, ID, "", &pod, &container));
	kube_table__forget(t, 3);
	assert_true(kube_table__find(t, ID, "", &pod, &container));
	kube_table__forget(t, 4);
	assert_false(kube_table__find(t, ID, "u1", &pod, &container));
	assert_int_equal(kube_table__put(t, second.at, second.len, true, 9), 0);
	assert_int_equal(kube_table__cnt(t), 0);
	assert_true(kube_table__find(t, "", "u2", &pod, &container));
	kube_table__free(t);
}

static void test_kube__table_is_bounded(void **state)
{
	struct kube_table *t;
	char uid[16];

	(void)state;
	assert_int_equal(kube_table__new(&t), 0);
	for (unsigned int i = 0; i <= KUBE_PODS_MAX; i++) {
		struct kube_bytes b;

		snprintf(uid, sizeof(uid), "u%u", i);
		b = made(uid, NULL);
		assert_int_equal(kube_table__put(t, b.at, b.len, false, 1),
				 i < KUBE_PODS_MAX ? 0 : -ENOSPC);
	}
	assert_int_equal(kube_table__cnt(t), KUBE_PODS_MAX);
	/* during a list those that it has not named make room */
	kube_table__begin(t);
	for (unsigned int i = 0; i < 5; i++) {
		struct kube_bytes b;

		snprintf(uid, sizeof(uid), "v%u", i);
		b = made(uid, NULL);
		assert_int_equal(kube_table__put(t, b.at, b.len, false, 1), 0);
	}
	kube_table__end(t, 2);
	assert_int_equal(kube_table__cnt(t), 5);
	kube_table__free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kube__answers), cmocka_unit_test(test_kube__large),
		cmocka_unit_test(test_kube__bytes),   cmocka_unit_test(test_kube__workload),
		cmocka_unit_test(test_kube__table),   cmocka_unit_test(test_kube__table_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
