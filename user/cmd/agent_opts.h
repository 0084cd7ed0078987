/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of the agent: of its command line, PYEBPF_*, and /etc/pyebpf/agent.yaml. */
#ifndef PYEBPF_CMD_AGENT_OPTS_H
#define PYEBPF_CMD_AGENT_OPTS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/pods.h"
#include "agent/relabel.h"
#include "cmd/config.h"
#include "cmd/kube_args.h"
#include "cmd/options.h"
#include "sink/spec.h"
#include "store/store.h"

#define AGENT_STORE_ABOVE "/var/lib/pyebpf"
#define AGENT_STORE	  AGENT_STORE_ABOVE "/store"
#define AGENT_CONFIG	  "/etc/pyebpf/agent.yaml"
#define AGENT_RUN_DIR	  "/run/pyebpf"
#define AGENT_SOCKET	  AGENT_RUN_DIR "/agent.sock"
#define AGENT_LISTEN	  "127.0.0.1:7099"
#define AGENT_LABELS_MAX  16
#define AGENT_GLOBS_MAX	  64

/* Lists hold their own texts: these come from words of the environment, too. Not to be copied. */
struct agent_labels {
	struct store_label items[AGENT_LABELS_MAX];
	char names[AGENT_LABELS_MAX][64], values[AGENT_LABELS_MAX][STORE_LABEL_MAX + 1];
	uint32_t cnt;
};

struct agent_globs {
	const char *items[AGENT_GLOBS_MAX];
	char texts[AGENT_GLOBS_MAX][128];
	uint32_t cnt;
};

/* Labels of pods that become labels of profiles. */
struct agent_keeps {
	struct pods_keep items[AGENT_LABELS_MAX];
	char names[AGENT_LABELS_MAX][KUBE_TEXT_MAX + 1], as[AGENT_LABELS_MAX][KUBE_TEXT_MAX + 1];
	uint32_t cnt;
};

struct agent_opts {
	const char *config;
	bool check_config;
	const char *store;
	bool any_window; /* tests: from 1 s on */
	uint64_t off_cpu_ns; /* 0: not sampled */
	uint64_t window_ns, rate, max_age_ns, max_bytes, duration_ns;
	struct agent_labels labels;
	struct agent_globs include, exclude;
	bool include_cmdline;
	struct sink_list sinks;
	struct relabel *relabel; /* NULL: no rules */
	uint64_t max_cpu_pct, max_memory; /* of each CPU; bytes */
	const char *kubernetes; /* auto, on, off */
	const char *node_name; /* NULL: the machine's */
	struct kube_args kube;
	struct agent_globs include_ns, exclude_ns;
	bool opt_in;
	struct agent_keeps pod_labels, pod_annotations;
	const char *socket, *listen; /* NULL: the default, if it can be had; "": none */
	const char *kill_switch;
	uint64_t burst_ns, burst_max_ns, burst_budget_ns, burst_bytes;
	const char *burst_service, *burst_file;
	bool json; /* agent status */
	bool quiet, verbose;
};

/* Settings that are in force, and what they were made of. */
struct agent_settings {
	struct agent_opts opts;
	struct yaml *file; /* NULL: none */
};

extern const struct opt_command agent_command;

/**
 * agent_settings_load - read all settings
 * @argc, @argv: of the command, as options_parse() left them
 * @given:       what options_parse() made of these alone
 *
 * The file is that of --config or PYEBPF_CONFIG, which has to be there, else AGENT_CONFIG, which may be.
 *
 * Return: a heap object, NULL with the sentence in @e and the number in *@err.
 */
struct agent_settings *agent_settings_load(int argc, char **argv, const struct agent_opts *given,
					   int *err, struct err *e);
void agent_settings_free(struct agent_settings *s); /* NULL is fine */

static inline void agent_settings_freep(struct agent_settings **s)
{
	agent_settings_free(*s);
}

/* agent_listen_parse - "127.0.0.1:7099" or "[::1]:7099". 0 or -PYE_EUSAGE with a sentence. */
int agent_listen_parse(const char *text, char *address, size_t size, uint16_t *port, struct err *e);

/* agent_settings_file - the path of the file that they come from; NULL: none was there. */
const char *agent_settings_file(const struct agent_opts *given);

/* agent_settings_fixed - what differs of that which only a new start can change: the names of settings, into @out. false: nothing. */
bool agent_settings_fixed(const struct agent_opts *a, const struct agent_opts *b, char *out,
			  size_t size);

/* agent_settings_keep - that stays as it was at the start. Texts are borrowed from @first. */
void agent_settings_keep(struct agent_opts *next, const struct agent_opts *first);

#endif
