// SPDX-License-Identifier: Apache-2.0
#include "cmd/agent_opts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "cmd/sinks.h"

#define SECOND	      1000000000ull
#define RATE_MAX      1000u
#define WINDOW_MIN_NS (10 * SECOND)
#define WINDOW_MAX_NS (300 * SECOND)

/* Those with __ in front are of the rules, and of servers. */
static bool may_be_label(const char *name)
{
	return label_is_name(name) && strncmp(name, SERVICE_META, strlen(SERVICE_META)) != 0;
}

/* One of the same name takes the place of the one before. */
static int parse_label(void *field, const char *arg, struct err *e)
{
	struct agent_labels *list = field;
	const char *equals = strchr(arg, '=');
	size_t len = equals ? (size_t)(equals - arg) : 0;
	char name[sizeof(list->names[0])];
	uint32_t at = 0;

	if (!equals || len >= sizeof(name))
		return err_set(e, -PYE_EUSAGE, "want NAME=VALUE: %.60s", arg);
	memcpy(name, arg, len);
	name[len] = '\0';
	if (!may_be_label(name))
		return err_set(e, -PYE_EUSAGE, "no label can be called %.60s", name);
	if (strlen(equals + 1) > STORE_LABEL_MAX)
		return err_set(e, -PYE_EUSAGE, "the value of the label %.60s is too long", name);
	while (at < list->cnt && strcmp(list->names[at], name) != 0)
		at++;
	if (at == AGENT_LABELS_MAX)
		return err_set(e, -PYE_EUSAGE, "at most %u labels", AGENT_LABELS_MAX);
	memcpy(list->names[at], name, sizeof(name));
	snprintf(list->values[at], sizeof(list->values[at]), "%s", equals + 1);
	list->items[at] = (struct store_label){ list->names[at], list->values[at] };
	list->cnt += at == list->cnt;
	return 0;
}

static int parse_glob(void *field, const char *arg, struct err *e)
{
	struct agent_globs *list = field;

	if (list->cnt == AGENT_GLOBS_MAX || strlen(arg) >= sizeof(list->texts[0]))
		return err_set(e, -PYE_EUSAGE, "at most %u names of at most %zu bytes",
			       AGENT_GLOBS_MAX, sizeof(list->texts[0]) - 1);
	strcpy(list->texts[list->cnt], arg);
	list->items[list->cnt] = list->texts[list->cnt];
	list->cnt++;
	return 0;
}

/* "team" or "app.kubernetes.io/part-of=system". */
static int parse_keep(void *field, const char *arg, struct err *e)
{
	struct agent_keeps *list = field;
	const char *equals = strchr(arg, '=');
	int len = equals ? (int)(equals - arg) : (int)strlen(arg);
	const char *as = equals ? equals + 1 : arg;

	if (list->cnt == AGENT_LABELS_MAX || !len || len > KUBE_TEXT_MAX ||
	    strlen(as) > KUBE_TEXT_MAX)
		return err_set(e, -PYE_EUSAGE, "want at most %u names, NAME or NAME=LABEL: %.60s",
			       AGENT_LABELS_MAX, arg);
	if (!may_be_label(as))
		return err_set(e, -PYE_EUSAGE, "no label can be called %.60s: want NAME=LABEL", as);
	snprintf(list->names[list->cnt], sizeof(list->names[0]), "%.*s", len, arg);
	strcpy(list->as[list->cnt], as);
	list->items[list->cnt] = (struct pods_keep){ list->names[list->cnt], list->as[list->cnt] };
	list->cnt++;
	return 0;
}

#define AT(member) offsetof(struct agent_opts, member)

/* clang-format off */
static const struct opt_row sampling_rows[] = {
	{ 'r', "rate", "N", OPT_UNSIGNED, AT(rate), "19",
	  "samples of each CPU per second, up to 1000", false, NULL },
	{ 0, "off-cpu", "TIME", OPT_DURATION, AT(off_cpu_ns), NULL,
	  "also what threads wait in, and for what, when that takes so long at least: 10ms", false, NULL },
	{ 0, "window", "TIME", OPT_DURATION, AT(window_ns), "60s",
	  "time of a profile, 10s to 5m; they begin at its multiples, the first one ends after 10s",
	  false, NULL },
	{ 0, "any-window", NULL, OPT_FLAG, AT(any_window), NULL, "", true, NULL },
	{ 'd', "duration", "TIME", OPT_DURATION, AT(duration_ns), NULL,
	  "stop after so long; else at SIGTERM or Ctrl-C", false, NULL },
	{ 0 },
};
static const struct opt_row store_rows[] = {
	{ 0, "store", "DIR", OPT_STRING, AT(store), AGENT_STORE,
	  "folder of the profiles", false, NULL },
	{ 0, "max-age", "TIME", OPT_DURATION, AT(max_age_ns), "24h",
	  "profiles that are older are removed", false, NULL },
	{ 0, "max-size", "SIZE", OPT_SIZE, AT(max_bytes), "512M",
	  "the oldest profiles are removed when all have more bytes", false, NULL },
	{ 0 },
};
static const struct opt_row service_rows[] = {
	{ 0, "label", "NAME=VALUE", OPT_CUSTOM, AT(labels), NULL,
	  "put this label on all profiles, beside node, service_name, unit, container_id, executable and "
	  "python; can be repeated", false, parse_label },
	{ 0, "include", "SERVICE", OPT_CUSTOM, AT(include), NULL,
	  "keep profiles of these services only; * and ? stand for others; can be repeated", false, parse_glob },
	{ 0, "exclude", "SERVICE", OPT_CUSTOM, AT(exclude), NULL,
	  "keep none of these; can be repeated", false, parse_glob },
	{ 0, "include-cmdline", NULL, OPT_FLAG, AT(include_cmdline), NULL,
	  "show relabel rules the command lines of processes, which can hold secrets", false, NULL },
	{ 0 },
};
static const struct opt_row limit_opt_rows[] = {
	{ 0, "max-cpu", "PCT", OPT_UNSIGNED, AT(max_cpu_pct), "1",
	  "CPU time that the agent may use with all that belongs to it, of all CPUs: else not every sample is "
	  "taken, and the next one of the thread stands for those left out, too", false, NULL },
	{ 0, "max-memory", "SIZE", OPT_SIZE, AT(max_memory), "256M",
	  "above it nothing is sampled until it is less", false, NULL },
	{ 0, "kill-switch", "FILE", OPT_STRING, AT(kill_switch), AGENT_RUN_DIR "/off",
	  "nothing is sampled while this file is there; only root can have made it, in a folder of root's",
	  false, NULL },
	{ 0 },
};
static const struct opt_row burst_rows[] = {
	{ 0, "burst-time", "TIME", OPT_DURATION, AT(burst_ns), "10s",
	  "time of a burst that does not say it", false, NULL },
	{ 0, "burst-max", "TIME", OPT_DURATION, AT(burst_max_ns), "60s",
	  "time of the longest burst", false, NULL },
	{ 0, "burst-budget", "TIME", OPT_DURATION, AT(burst_budget_ns), "5m",
	  "time of all bursts in an hour; 0 for none at all", false, NULL },
	{ 0, "burst-size", "SIZE", OPT_SIZE, AT(burst_bytes), "64M",
	  "a burst ends when its capture has so many bytes", false, NULL },
	{ 0, "burst-service", "NAME", OPT_STRING, AT(burst_service), NULL,
	  "whose calls SIGUSR1 asks for; else those of the service that used the CPU most", false, NULL },
	{ 0, "burst-file", "FILE", OPT_STRING, AT(burst_file), AGENT_RUN_DIR "/burst",
	  "a request in this file is taken and the file removed; as with --kill-switch, only root's", false, NULL },
	{ 0 },
};
static const struct opt_row talk_rows[] = {
	{ 0, "socket", "PATH", OPT_STRING, AT(socket), NULL,
	  "Unix socket of status and burst, not " AGENT_SOCKET "; '' for none", false, NULL },
	{ 0, "listen", "ADDR:PORT", OPT_STRING, AT(listen), NULL,
	  "HTTP of /metrics, /healthz and /readyz, not " AGENT_LISTEN "; '' for none", false, NULL },
	{ 0, "json", NULL, OPT_FLAG, AT(json), NULL, "status: print JSON", false, NULL },
	{ 0 },
};
static const struct opt_row sink_rows[] = {
	{ 0, "sink", "TYPE=URL", OPT_CUSTOM, AT(sinks), NULL, SINK_HELP, false, sinks_option },
	{ 0 },
};
static const struct opt_row kube_rows[] = {
	{ 0, "kubernetes", "WHEN", OPT_STRING, AT(kubernetes), "auto",
	  "watch the pods of this node, so that profiles have their names: on, off, or auto, in a pod", false, NULL },
	{ 0, "node-name", "NAME", OPT_STRING, AT(node_name), NULL,
	  "name of this node, in the API and in the label node; else the machine's", false, NULL },
	{ 0, "include-namespace", "NS", OPT_CUSTOM, AT(include_ns), NULL,
	  "keep profiles of pods of these namespaces only; * and ? stand for others; can be repeated", false, parse_glob },
	{ 0, "exclude-namespace", "NS", OPT_CUSTOM, AT(exclude_ns), NULL,
	  "keep none of these; can be repeated", false, parse_glob },
	{ 0, "opt-in", NULL, OPT_FLAG, AT(opt_in), NULL,
	  "only pods with the annotation " PODS_ENABLED ": \"true\"; else all but those with \"false\"", false, NULL },
	{ 0, "pod-label", "NAME[=LABEL]", OPT_CUSTOM, AT(pod_labels), NULL,
	  "put this label of pods on profiles, under another name if need be; can be repeated", false, parse_keep },
	{ 0, "pod-annotation", "NAME[=LABEL]", OPT_CUSTOM, AT(pod_annotations), NULL,
	  "the same of an annotation", false, parse_keep },
	{ 0, "kube-api", "URL", OPT_STRING, AT(kube.api), NULL,
	  "the API server, not that of KUBERNETES_SERVICE_HOST", false, NULL },
	{ 0, "kube-ca", "FILE", OPT_STRING, AT(kube.ca), NULL,
	  "whom to trust, not " KUBE_ACCOUNT "/ca.crt", false, NULL },
	{ 0, "kube-token", "FILE", OPT_STRING, AT(kube.token), NULL,
	  "bearer token, read for each request, not " KUBE_ACCOUNT "/token", false, NULL },
	{ 0 },
};
static const struct opt_row other_rows[] = {
	{ 0, "config", "FILE", OPT_STRING, AT(config), NULL,
	  "read the settings that are not given here from this file, not from " AGENT_CONFIG
	  " (which need not be there)", false, NULL },
	{ 0, "check-config", NULL, OPT_FLAG, AT(check_config), NULL,
	  "only say whether the settings are good", false, NULL },
	{ 'q', "quiet", NULL, OPT_FLAG, AT(quiet), NULL, "nothing about the windows", false, NULL },
	{ 'v', "verbose", NULL, OPT_FLAG, AT(verbose), NULL, "say what is done", false, NULL },
	{ 0 },
};
static const struct opt_group groups[] = {
	{ "Sampling", sampling_rows, 0 },
	{ "Store", store_rows, 0 },
	{ "Services", service_rows, 0 },
	{ "Kubernetes", kube_rows, 0 },
	{ "Sinks", sink_rows, 0 },
	{ "Limits", limit_opt_rows, 0 },
	{ "Bursts", burst_rows, 0 },
	{ "Talking to it", talk_rows, 0 },
	{ "Other", other_rows, 0 },
	{ 0 },
};
/* clang-format on */

const struct opt_command agent_command = {
	.name = "agent",
	.usage = "agent [options]\n"
		 "agent status [--json] [--socket PATH]\n"
		 "agent burst [service=NAME | pid=PID] [seconds=N] [--socket PATH]\n"
		 "agent purge [wait] [--store DIR]",
	.about =
		"Profile every Python process of this machine all the time, and keep one profile "
		"per service and window in a folder: pprof files, which pyebpf fleet adds up. "
		"status asks the running agent how it is; burst has it record every call of a service for some "
		"seconds into the same store; purge removes the store of an agent that has ended, sent or not, and with wait is there until it is ended. Options go before PYEBPF_* variables, and these before " AGENT_CONFIG
		".",
	.groups = groups,
	.examples = "  sudo pyebpf agent\n"
		    "  sudo pyebpf agent --window 10s --store /tmp/profiles --label zone=a\n"
		    "  sudo pyebpf agent -r 99 -d 10m --store ten-minutes\n"
		    "  sudo pyebpf agent burst service=web seconds=5\n"
		    "  sudo pyebpf agent --sink clickhouse=http://clickhouse:8123\n"
		    "  pyebpf agent --check-config --config new.yaml\n",
};

static int read_relabel(void *opts, const struct yaml_node *node, struct err *e)
{
	return relabel__read(&((struct agent_opts *)opts)->relabel, node, e);
}

static int read_sinks(void *opts, const struct yaml_node *node, struct err *e)
{
	return sinks_read(&((struct agent_opts *)opts)->sinks, node, e);
}

static const struct config_section sections[] = {
	{ "relabel_configs", read_relabel },
	{ "sinks", read_sinks },
	{ 0 },
};

static int check(const void *opts, const char **name, struct err *e)
{
	const struct agent_opts *o = opts;
	char address[64];
	uint16_t port;

	*name = "rate";
	if (!o->rate || o->rate > RATE_MAX)
		return err_set(e, -PYE_EUSAGE, "1 to %u", RATE_MAX);
	*name = "window";
	if (o->window_ns < (o->any_window ? SECOND : WINDOW_MIN_NS) ||
	    o->window_ns > WINDOW_MAX_NS || o->window_ns % SECOND)
		return err_set(e, -PYE_EUSAGE, "10s to 5m, whole seconds");
	*name = "store";
	if (!*o->store)
		return err_set(e, -PYE_EUSAGE, "want a folder");
	*name = "max-cpu";
	if (!o->max_cpu_pct || o->max_cpu_pct > 100)
		return err_set(e, -PYE_EUSAGE, "1 to 100");
	*name = "burst-time";
	if (!o->burst_ns || o->burst_ns > o->burst_max_ns)
		return err_set(e, -PYE_EUSAGE, "up to --burst-max");
	*name = "kubernetes";
	if (strcmp(o->kubernetes, "auto") != 0 && strcmp(o->kubernetes, "on") != 0 &&
	    strcmp(o->kubernetes, "off") != 0)
		return err_set(e, -PYE_EUSAGE, "auto, on or off");
	*name = "listen";
	return o->listen && *o->listen
		       ? agent_listen_parse(o->listen, address, sizeof(address), &port, e)
		       : 0;
}

int agent_listen_parse(const char *text, char *address, size_t size, uint16_t *port, struct err *e)
{
	const char *colon = strrchr(text, ':');
	bool six = *text == '[';
	size_t len = colon ? (size_t)(colon - text) : 0;
	char *end = NULL;
	long number = colon && colon[1] ? strtol(colon + 1, &end, 10) : -1;

	if (six && (len < 2 || text[len - 1] != ']'))
		len = 0;
	if (!len || len >= size || !end || *end || number < 0 || number > UINT16_MAX)
		return err_set(e, -PYE_EUSAGE, "want 127.0.0.1:7099 or [::1]:7099, not %.60s",
			       text);
	memcpy(address, text + six, len - 2 * (size_t)six);
	address[len - 2 * (size_t)six] = '\0';
	*port = (uint16_t)number;
	return 0;
}

const char *agent_settings_file(const struct agent_opts *given)
{
	const char *variable = secure_getenv("PYEBPF_CONFIG");

	if (given->config)
		return given->config;
	if (variable && *variable)
		return variable;
	return access(AGENT_CONFIG, F_OK) ? NULL : AGENT_CONFIG;
}

/* Who writes the settings of root's agent tells it where to write. */
static int check_file(const char *path, struct err *e)
{
	char shown[256];
	struct stat st;

	if (stat(path, &st) || geteuid())
		return 0; /* reading it says what is wrong */
	if ((st.st_uid && st.st_uid != getuid()) || (st.st_mode & (S_IWGRP | S_IWOTH))) {
		err_set(e, -PYE_EUSAGE, "%s can be written by others than root",
			text_escape(shown, sizeof(shown), path, strlen(path)));
		err_hint(e, "chown root it, and chmod 644");
		return -PYE_EUSAGE;
	}
	return 0;
}

struct agent_settings *agent_settings_load(int argc, char **argv, const struct agent_opts *given,
					   int *err, struct err *e)
{
	const struct config config = {
		&agent_command, sections, argc, argv, sizeof(struct agent_opts), check
	};
	auto_fn(agent_settings_freep) struct agent_settings *s = calloc(1, sizeof(*s));
	const char *path = agent_settings_file(given);

	*err = s ? 0 : -ENOMEM;
	if (!*err && path)
		*err = check_file(path, e);
	*err = *err ? *err : config_load(&config, path, &s->opts, &s->file, e);
	return *err ? NULL : take_ptr(s);
}

void agent_settings_free(struct agent_settings *s)
{
	if (!s)
		return;
	relabel__free(s->opts.relabel);
	yaml__free(s->file);
	free(s);
}

static bool differ(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "") != 0 || !a != !b;
}

bool agent_settings_fixed(const struct agent_opts *a, const struct agent_opts *b, char *out,
			  size_t size)
{
	const struct {
		const char *name;
		bool differs;
	} all[] = {
		{ "sink", a->sinks.cnt != b->sinks.cnt ||
				  memcmp(a->sinks.items, b->sinks.items,
					 a->sinks.cnt * sizeof(a->sinks.items[0])) != 0 },
		{ "store", differ(a->store, b->store) },
		{ "window", a->window_ns != b->window_ns },
		{ "rate", a->rate != b->rate },
		{ "off_cpu", !a->off_cpu_ns != !b->off_cpu_ns },
		{ "duration", a->duration_ns != b->duration_ns },
		{ "kubernetes",
		  differ(a->kubernetes, b->kubernetes) || differ(a->kube.api, b->kube.api) ||
			  differ(a->kube.ca, b->kube.ca) || differ(a->kube.token, b->kube.token) },
		{ "node_name", differ(a->node_name, b->node_name) },
		{ "socket", differ(a->socket, b->socket) },
		{ "listen", differ(a->listen, b->listen) },
	};
	size_t n = 0;

	out[0] = '\0';
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (all[i].differs && n < size)
			n += (size_t)snprintf(out + n, size - n, "%s%s", n ? ", " : "",
					      all[i].name);
	return n != 0;
}

void agent_settings_keep(struct agent_opts *next, const struct agent_opts *first)
{
	next->sinks = first->sinks;
	next->store = first->store;
	next->window_ns = first->window_ns;
	next->rate = first->rate;
	/* how long a wait has to be can change, whether waits are sampled cannot */
	if (!next->off_cpu_ns != !first->off_cpu_ns)
		next->off_cpu_ns = first->off_cpu_ns;
	next->duration_ns = first->duration_ns;
	next->kubernetes = first->kubernetes;
	next->kube = first->kube;
	next->node_name = first->node_name;
	next->socket = first->socket;
	next->listen = first->listen;
}
