// SPDX-License-Identifier: Apache-2.0
/* What the cgroup files of each engine say, on machines of version 1, of version 2 and of both. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include <cmocka.h>

#include "proc/container.h"
#include "proc/mounts.h"

#define ID   "0123456789ab4444555566667777888899990000aaaabbbbccccddddeeeeffff"
#define ID2  "ba9876543210444455556666777788889999000011112222333344445555abcd"
#define POD  "pod3e61c214bc3e_1f0c_4b8d_9d5c_6ba19a7e4f21"
#define UUID "pod3e61c214-bc3e-1f0c-4b8d-6ba19a7e4f21"

/* clang-format off */
static const struct {
	const char *text, *want; /* "engine what-is-shown" */
} cases[] = {
	/* no container */
	{ "0::/\n", NULL },
	{ "0::/init.scope\n", NULL },
	{ "0::/user.slice/user-1000.slice/session-3.scope\n", NULL },
	{ "0::/system.slice/web.service\n", NULL },
	{ "0::/system.slice/run-r6c31d54b3f0a4f5c8a1e2d3b4c5f6a7b.scope\n", NULL },
	{ "12:pids:/user.slice\n1:name=systemd:/user.slice/user-0.slice\n0::/user.slice\n", NULL },
	{ "4:memory:/process_api/077c1ae479820991a18809fe7933b085\n", NULL },
	{ "0::/user.slice/user-1000.slice/user@1000.service/app.slice/app-gnome-x-1.scope\n", NULL },
	{ "", NULL },
	/* docker: cgroupfs and systemd, each version, both */
	{ "0::/docker/" ID "\n", "docker 0123456789ab" },
	{ "0::/system.slice/docker-" ID ".scope\n", "docker 0123456789ab" },
	{ "0::/system.slice/docker-" ID ".scope/init\n", "docker 0123456789ab" },
	{ "11:cpuset:/docker/" ID "\n10:cpu,cpuacct:/docker/" ID "\n1:name=systemd:/docker/" ID "\n", "docker 0123456789ab" },
	{ "2:memory:/system.slice/docker-" ID ".scope\n0::/system.slice/docker.service\n", "docker 0123456789ab" },
	{ "5:pids:/docker/" ID "\n0::/\n", "docker 0123456789ab" },
	{ "0::/docker/" ID "/docker/" ID2 "\n", "docker ba9876543210" },
	{ "0::/docker/buildx/x\n", NULL },
	/* containerd, on its own and nerdctl */
	{ "0::/default/" ID "\n", "containerd 0123456789ab" },
	{ "0::/system.slice/nerdctl-" ID ".scope\n", "containerd 0123456789ab" },
	/* Kubernetes: cgroupfs and systemd, containerd, CRI-O and docker */
	{ "0::/kubepods/burstable/" UUID "/" ID "\n", "kubernetes 0123456789ab" },
	{ "3:cpu,cpuacct:/kubepods/besteffort/" UUID "/" ID "\n", "kubernetes 0123456789ab" },
	{ "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-" POD ".slice/cri-containerd-" ID ".scope\n",
	  "kubernetes 0123456789ab" },
	{ "0::/kubepods.slice/kubepods-" POD ".slice/crio-" ID ".scope/container\n", "kubernetes 0123456789ab" },
	{ "9:memory:/kubepods.slice/kubepods-" POD ".slice/docker-" ID ".scope\n0::/\n", "kubernetes 0123456789ab" },
	{ "1:name=systemd:/system.slice/containerd.service/kubepods-burstable-" POD ".slice:cri-containerd:" ID "\n",
	  "kubernetes 0123456789ab" },
	{ "0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-" POD ".slice/cri-containerd-" ID ".scope\n",
	  "containerd 0123456789ab" },
	{ "0::/kubepods.slice/kubepods-" POD ".slice\n", "kubernetes" },
	/* CRI-O on its own, and its monitor */
	{ "0::/machine.slice/crio-" ID ".scope\n", "cri-o 0123456789ab" },
	{ "0::/machine.slice/crio-conmon-" ID ".scope\n", NULL },
	/* podman: root and not, split, cgroupfs, and its monitor */
	{ "0::/machine.slice/libpod-" ID ".scope/container\n", "podman 0123456789ab" },
	{ "0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID ".scope/container\n",
	  "podman 0123456789ab" },
	{ "0::/user.slice/user-1000.slice/user@1000.service/app.slice/web.service/libpod-payload-" ID "\n",
	  "podman 0123456789ab" },
	{ "7:devices:/libpod_parent/libpod-" ID "\n", "podman 0123456789ab" },
	{ "0::/machine.slice/libpod-conmon-" ID ".scope\n", NULL },
	/* systemd-nspawn, LXC, ECS, and one that nobody has heard of */
	{ "0::/machine.slice/machine-web.scope/payload\n", "machine web" },
	{ "0::/machine.slice/systemd-nspawn@web.service/payload\n", "machine web" },
	{ "0::/machine.slice\n", NULL },
	{ "8:cpuset:/lxc/web.example\n", "lxc web.example" },
	{ "0::/lxc.payload.web\n", "lxc web" },
	{ "0::/lxc.payload.web/system.slice/x.service\n", "lxc web" },
	{ "0::/lxc.monitor.web\n", NULL },
	{ "0::/ecs/prod/0123456789abcdef0123456789abcdef\n", "ecs 0123456789ab" },
	{ "0::/somewhere/" ID "\n", "container 0123456789ab" },
	/* what is no line, and a path with colons */
	{ "x:y:/docker/" ID "\n:\n1\n1:2\n99999999999:a:/docker/" ID "\n-1:a:/docker/" ID "\n3:b:relative\n", NULL },
	{ "0::/a:b/docker-" ID ".scope", "docker 0123456789ab" },
};
/* clang-format on */

static void test_container__engines(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct container_name c;
		char got[128] = "";

		if (container_of(cases[i].text, &c))
			snprintf(got, sizeof(got), c.len ? "%s %.*s" : "%s", c.engine, (int)c.shown,
				 c.id);
		if (strcmp(got, cases[i].want ? cases[i].want : "") != 0)
			fail_msg("%s is %s", cases[i].text, got);
	}
}

static void test_container__where_it_ends(void **state)
{
	static const char path[] = "/machine.slice/libpod-" ID ".scope/container";
	struct container_name c;

	(void)state;
	assert_true(container_in(path, strlen(path), &c));
	assert_int_equal(c.len, 64);
	assert_int_equal(c.end, strlen(path) - strlen("/container"));
	assert_false(container_at(path, strlen(path), 1, &c));
	assert_true(container_at(path, strlen(path), strlen("/machine.slice/"), &c));
}

static void test_container__lines(void **state)
{
	const char *text = "4:cpu,cpuacct:/a\njunk\n1:name=systemd:/b:c\n0::/";
	struct cgroup_line l;

	(void)state;
	assert_true(cgroup_line__next(&text, &l));
	assert_int_equal(l.hierarchy, 4);
	assert_int_equal(l.controllers_len, strlen("cpu,cpuacct"));
	assert_memory_equal(l.path, "/a", 2);
	assert_true(cgroup_line__next(&text, &l));
	assert_memory_equal(l.controllers, "name=systemd", l.controllers_len);
	assert_int_equal(l.path_len, 4);
	assert_true(cgroup_line__next(&text, &l));
	assert_int_equal(l.hierarchy, 0);
	assert_int_equal(l.controllers_len, 0);
	assert_int_equal(l.path_len, 1);
	assert_false(cgroup_line__next(&text, &l));
}

static void test_container__mounts(void **state)
{
	char lines[] =
		"36 35 98:0 /m\\0401 /a\\040b rw,noatime shared:1 master:2 - ext3 /dev/root rw,data=x\n"
		"no mount\n"
		"38 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n"
		"1 2 3 / /x rw - t s o\n"
		"1 2 3:4 x /x rw - t s o\n"
		"1 2 3:4 / /x rw -\n"
		"41 31 0:38 / /u rw - cgroup2 none rw";
	char *rest = lines;
	struct mount m;

	(void)state;
	assert_true(mount__next(&rest, &m));
	assert_string_equal(m.root, "/m 1");
	assert_string_equal(m.at, "/a b");
	assert_string_equal(m.type, "ext3");
	assert_string_equal(m.options, "rw,data=x");
	assert_true(m.dev == makedev(98, 0));
	assert_true(mount__next(&rest, &m));
	assert_string_equal(m.options, "rw,name=systemd");
	assert_true(mount__next(&rest, &m));
	assert_string_equal(m.type, "cgroup2");
	assert_false(mount__next(&rest, &m));
}

/* The uid of the pod, in the names of each runtime and driver. */
static void test_container__pod(void **state)
{
	static const char want[] = "3e61c214-bc3e-1f0c-4b8d-6ba19a7e4f21";
	/* clang-format off */
	static const char *const pods[] = {
		"0::/kubepods/burstable/pod3e61c214-bc3e-1f0c-4b8d-6ba19a7e4f21/" ID "\n",
		"4:memory:/x/kubepods/pod3e61c214-bc3e-1f0c-4b8d-6ba19a7e4f21/crio-" ID "\n0::/\n",
		"0::/kubepods.slice/kubepods-pod3e61c214_bc3e_1f0c_4b8d_6ba19a7e4f21.slice/docker-" ID ".scope/init\n",
		"1:name=systemd:/system.slice/containerd.service/kubepods-burstable-pod3e61c214_bc3e_1f0c_4b8d_6ba19a7e4f21.slice:cri-containerd:" ID "\n",
		"0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod3e61c214_bc3e_1f0c_4b8d_6ba19a7e4f21.slice/cri-containerd-" ID ".scope\n",
		"0::/kubepods/pod3e61c214-bc3e-1f0c-4b8d-6ba19a7e4f21",
		"0::/../../pod3e61c214-bc3e-1f0c-4b8d-6ba19a7e4f21/" ID "\n",
	};
	static const char *const none[] = {
		"0::/podman/pod3e61c214-bc3e-1f0c-4b8d-6ba19a7e4f21/" ID "\n", "0::/kubepods\n", "0::/kubepods/pod\n", "",
		"0::/kubepods/pod3e61c214-bc3e\n", "0::/kubepods/pod3e61c214-bc3e-1f0c-4b8d-6ba19a7e4f21ff\n",
		"0::/kubepods/pod3e61c214-bc3e-1f0c-4b8d-6ba19a7e4f2\x1b\n", "0::/kubepods.slice/xpod3e61c214-bc3e-1f0c-4b8d-6ba19a7e4f21\n",
	};
	/* clang-format on */
	char uid[POD_UID_MAX + 1];

	(void)state;
	for (size_t i = 0; i < sizeof(pods) / sizeof(pods[0]); i++) {
		assert_true(container_pod(pods[i], uid));
		assert_string_equal(uid, want);
	}
	assert_true(container_pod("0::/kubepods/pod0123456789abcdef0123456789abcdef/x\n", uid));
	assert_string_equal(uid, "0123456789abcdef0123456789abcdef");
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		assert_false(container_pod(none[i], uid));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_container__engines),
		cmocka_unit_test(test_container__where_it_ends),
		cmocka_unit_test(test_container__lines),
		cmocka_unit_test(test_container__mounts),
		cmocka_unit_test(test_container__pod),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
