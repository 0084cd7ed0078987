// SPDX-License-Identifier: Apache-2.0
/* What a process gets of its pod: labels, the name of its service, and whether it is wanted at all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/pods.h"
#include "agent/relabel.h"

#define ID "0123456789ab4444555566667777888899990000aaaabbbbccccddddeeeeffff"

static void add(struct kube_bytes *b, enum kube_entry what, const char *first, const char *second)
{
	assert_true(kube_bytes_add(b, what, first, strlen(first), second, strlen(second)));
}

struct fixture {
	struct kube_table *table;
	struct pods pods;
	struct service_rules rules;
};

static void put(struct fixture *f, const char *ns, const char *uid, const char *enabled, bool named)
{
	struct kube_bytes b = { .len = 0 };

	add(&b, KUBE_NAMESPACE, ns, "");
	add(&b, KUBE_NAME, "web-6d4-x", "");
	add(&b, KUBE_UID, uid, "");
	add(&b, KUBE_NODE, "n1", "");
	add(&b, KUBE_OWNER, "ReplicaSet", "web-6d4");
	add(&b, KUBE_LABEL, "pod-template-hash", "6d4");
	add(&b, KUBE_LABEL, "app.kubernetes.io/version", "2\x1b[31m");
	add(&b, KUBE_ANNOTATION, "team/owner", "ann");
	if (*enabled)
		add(&b, KUBE_ANNOTATION, PODS_ENABLED, enabled);
	if (named)
		add(&b, KUBE_ANNOTATION, PODS_SERVICE, "named");
	add(&b, KUBE_CONTAINER, "app", named ? "ffff" : ID);
	add(&b, KUBE_IMAGE, "app", "r:5000/x:1.2");
	assert_int_equal(kube_table__put(f->table, b.at, b.len, false, 1), 0);
}

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	assert_int_equal(kube_table__new(&f->table), 0);
	f->pods.table = f->table;
	f->rules.pods = &f->pods;
	put(f, "shop", "u1", "", false);
	put(f, "shop", "u2", "true", true);
	put(f, "bank", "u3", "false", true);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	kube_table__free(f->table);
	free(f);
	return 0;
}

/* "-": not wanted. */
static const char *labels_of(struct fixture *f, const char *id, const char *uid)
{
	static char out[4096];
	struct service s = { 0 }, got;
	size_t len = 0;

	service_add(&s, "service_name", "python3", 7);
	service_add(&s, SERVICE_CONTAINER, id, strlen(id));
	service_add(&s, SERVICE_POD_UID, uid, strlen(uid));
	if (!service_apply(&f->rules, &s, &got))
		return "-";
	for (uint32_t i = 0; i < got.label_cnt; i++)
		len += (size_t)snprintf(out + len, sizeof(out) - len, "%s%s=%s", i ? " " : "",
					got.labels[i].name, got.labels[i].value);
	return out;
}

#define REST                                                                                               \
	" namespace=shop pod=web-6d4-x container=app workload_kind=Deployment workload=web image_tag=1.2 " \
	"version=2\\x1b[31m"

static void test_pods__labels(void **state)
{
	static const struct pods_keep keep[] = { { "team/owner", "owner" }, { "none", "none" } };
	struct fixture *f = *state;

	assert_string_equal(labels_of(f, ID, ""), "service_name=web" REST);
	assert_string_equal(labels_of(f, ID, "u2"), "service_name=web" REST);
	/* of its only container when the id is not known */
	assert_string_equal(labels_of(f, "", "u2"), "service_name=named" REST);
	assert_string_equal(labels_of(f, "eeee", "u9"), "service_name=python3");
	assert_string_equal(labels_of(f, "", ""), "service_name=python3");
	f->pods.annotations = keep;
	f->pods.annotation_cnt = 2;
	assert_string_equal(labels_of(f, ID, ""), "service_name=web" REST " owner=ann");
}

static void test_pods__wanted(void **state)
{
	static const char *const bank[] = { "bank" }, *const glob[] = { "sh*" };
	struct fixture *f = *state;

	assert_string_equal(labels_of(f, "", "u3"), "-");
	f->pods.opt_in = true;
	assert_string_equal(labels_of(f, ID, ""), "-");
	assert_string_not_equal(labels_of(f, "", "u2"), "-");
	assert_string_equal(labels_of(f, "", "u9"), "-");
	assert_string_equal(labels_of(f, "", ""), "-");
	f->pods.opt_in = false;
	f->pods.exclude = glob;
	f->pods.exclude_cnt = 1;
	assert_string_equal(labels_of(f, ID, ""), "-");
	assert_string_equal(labels_of(f, "", "u9"), "-"); /* it may be of that namespace */
	assert_string_not_equal(labels_of(f, "", ""), "-");
	f->pods.exclude_cnt = 0;
	f->pods.include = bank;
	f->pods.include_cnt = 1;
	assert_string_equal(labels_of(f, ID, ""), "-");
	assert_string_equal(labels_of(f, "", ""), "-");
	f->pods.include = glob;
	assert_string_not_equal(labels_of(f, ID, ""), "-");
}

/* Rules see what users know of other agents. */
static void test_pods__rules(void **state)
{
	static const char text[] =
		"r:\n  - {source_labels: [__meta_kubernetes_namespace, __meta_kubernetes_pod_name, "
		"__meta_kubernetes_pod_node_name, "
		"__meta_kubernetes_pod_controller_name, __meta_kubernetes_pod_label_pod_template_hash, __meta_kubernetes_pod_annotation_team_owner, "
		"__meta_kubernetes_pod_container_name, __meta_kubernetes_pod_container_image], "
		"target_label: all}\n  - {regex: 'version|image_tag|workload.*|container|pod', action: labeldrop}\n";
	struct fixture *f = *state;
	struct relabel *r = NULL;
	struct err e = { 0 };
	struct yaml *y;

	assert_int_equal(yaml__parse(&y, text, strlen(text), &e), 0);
	assert_int_equal(relabel__read(&r, yaml__root(y)->first, &e), 0);
	yaml__free(y);
	f->rules.relabel = r;
	assert_string_equal(labels_of(f, ID, ""),
			    "service_name=web namespace=shop "
			    "all=shop;web-6d4-x;n1;web-6d4;6d4;ann;app;r:5000/x:1.2");
	relabel__free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_pods__labels, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_pods__wanted, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_pods__rules, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
