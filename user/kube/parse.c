// SPDX-License-Identifier: Apache-2.0
#include "kube/parse.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_read.h"

#define ANSWER_MAX (64u << 20) /* of a list: 500 pods have some MB */
#define TEXT_MAX   (2u << 20) /* more than the API's store takes of one object */
#define GONE_CODE  410

struct text {
	char at[KUBE_TEXT_MAX + 1];
	size_t len;
};

struct kube_parse {
	enum kube_answer answer;
	struct kube_listener listener;
	struct json_reader reader;
	struct json_feed *feed;
	const char *base; /* path of a pod */
	uint32_t base_depth; /* of what is in one */
	uint64_t bytes;
	char version[KUBE_VERSION_MAX]; /* newest; of the object at hand it is in "next" */

	/* of the object at hand */
	struct kube_bytes pod;
	struct text next, kind, message, reason, type;
	struct text owner_kind, owner_name, name, id, image, last_id;
	bool controller;
	int code;
	char said[KUBE_TEXT_MAX + 1]; /* of a Status */
};

/* What does not fit is none. */
static void set(struct text *t, const struct json_value *v)
{
	t->len = v->type == JSON_STRING && v->len < sizeof(t->at) ? v->len : 0;
	memcpy(t->at, v->s, t->len);
	t->at[t->len] = '\0';
}

static void clear(struct text *t)
{
	t->at[t->len = 0] = '\0';
}

/* Of a path of the answer, what is in the pod; NULL: it is not of one. */
static const char *in_pod(const struct kube_parse *p)
{
	const char *path = p->reader.path;
	size_t n = strlen(p->base);

	if (!n)
		return path;
	return !strncmp(path, p->base, n) && path[n] == '.' ? path + n + 1 : NULL;
}

static void add(struct kube_parse *p, enum kube_entry what, const char *first, size_t first_len,
		const char *second, size_t second_len)
{
	kube_bytes_add(&p->pod, what, first, first_len, second, second_len);
}

/* A member of a map of the author's own names, which may have dots in them. */
static bool take_map(struct kube_parse *p, const char *at, const char *map, enum kube_entry what,
		     const struct json_value *v)
{
	size_t n = strlen(map);

	if (strncmp(at, map, n) != 0)
		return false;
	/* a name that a path cannot have is this; what is deeper is no member of the map */
	if (p->reader.depth == p->base_depth + 2 && p->reader.path_len + 1 < JSON_PATH_MAX &&
	    at[n] != '?')
		add(p, what, at + n, strlen(at + n), v->s, v->len);
	return true;
}

static bool take_single(struct kube_parse *p, const char *at, const struct json_value *v)
{
	static const struct {
		const char *path;
		enum kube_entry what;
	} singles[] = {
		{ "metadata.namespace", KUBE_NAMESPACE },
		{ "metadata.name", KUBE_NAME },
		{ "metadata.uid", KUBE_UID },
		{ "spec.nodeName", KUBE_NODE },
		{ "status.phase", KUBE_PHASE },
	};

	for (size_t i = 0; i < sizeof(singles) / sizeof(singles[0]); i++) {
		if (strcmp(at, singles[i].path) != 0)
			continue;
		add(p, singles[i].what, v->s, v->len, "", 0);
		return true;
	}
	return false;
}

/* "status.containerStatuses[].name": the member of a list of containers, or NULL. */
static const char *in_containers(const char *at, bool *statuses)
{
	static const char *const specs[] = { "spec.containers[].", "spec.initContainers[].",
					     "spec.ephemeralContainers[]." };
	static const char *const states[] = { "status.containerStatuses[].",
					      "status.initContainerStatuses[].",
					      "status.ephemeralContainerStatuses[]." };

	for (size_t i = 0; i < 3; i++) {
		*statuses = !strncmp(at, states[i], strlen(states[i]));
		if (*statuses)
			return at + strlen(states[i]);
		if (!strncmp(at, specs[i], strlen(specs[i])))
			return at + strlen(specs[i]);
	}
	return NULL;
}

/* Is this the path of a container itself? */
static bool is_container(const char *at, bool *statuses)
{
	char dotted[JSON_PATH_MAX + 1];
	const char *member;

	snprintf(dotted, sizeof(dotted), "%s.", at);
	member = in_containers(dotted, statuses);
	return member && !*member;
}

static void take_container(struct kube_parse *p, const char *member, const struct json_value *v)
{
	if (!strcmp(member, "name"))
		set(&p->name, v);
	else if (!strcmp(member, "image"))
		set(&p->image, v);
	else if (!strcmp(member, "containerID"))
		set(&p->id, v);
	else if (!strcmp(member, "lastState.terminated.containerID"))
		set(&p->last_id, v);
}

static void take_owner(struct kube_parse *p, const char *member, const struct json_value *v)
{
	if (!strcmp(member, "kind"))
		set(&p->owner_kind, v);
	else if (!strcmp(member, "name"))
		set(&p->owner_name, v);
	else if (!strcmp(member, "controller"))
		p->controller = v->type == JSON_BOOL && v->number != 0;
}

static void take_in_pod(struct kube_parse *p, const char *at, const struct json_value *v)
{
	static const char owners[] = "metadata.ownerReferences[].";
	const char *member;
	bool statuses;

	if (v->type == JSON_STRING &&
	    (take_single(p, at, v) || take_map(p, at, "metadata.labels.", KUBE_LABEL, v) ||
	     take_map(p, at, "metadata.annotations.", KUBE_ANNOTATION, v)))
		return;
	member = in_containers(at, &statuses);
	if (member)
		take_container(p, member, v);
	else if (!strncmp(at, owners, strlen(owners)))
		take_owner(p, at + strlen(owners), v);
	else if (!strcmp(at, "metadata.resourceVersion") && p->answer != KUBE_LIST)
		set(&p->next, v);
	else if (!strcmp(at, "kind"))
		set(&p->kind, v);
	else if (!strcmp(at, "message"))
		set(&p->message, v);
	else if (!strcmp(at, "reason"))
		set(&p->reason, v);
	else if (!strcmp(at, "code") && v->number >= 0 && v->number < 1000)
		p->code = (int)v->number;
}

static int on_value(void *ctx, const struct json_value *v)
{
	struct kube_parse *p = ctx;
	const char *at = in_pod(p), *path = p->reader.path;

	if (at)
		take_in_pod(p, at, v);
	else if (p->answer == KUBE_WATCH && !strcmp(path, "type"))
		set(&p->type, v);
	else if (p->answer == KUBE_LIST && !strcmp(path, "metadata.resourceVersion"))
		set(&p->next, v);
	else if (p->answer == KUBE_LIST && !strcmp(path, "kind"))
		set(&p->kind, v);
	else if (p->answer == KUBE_LIST && !strcmp(path, "message"))
		set(&p->message, v);
	else if (p->answer == KUBE_LIST && !strcmp(path, "reason"))
		set(&p->reason, v);
	return 0;
}

static void keep_version(struct kube_parse *p)
{
	if (p->next.len && p->next.len < sizeof(p->version))
		memcpy(p->version, p->next.at, p->next.len + 1);
}

static void begin_object(struct kube_parse *p)
{
	p->pod.len = 0;
	clear(&p->next);
	clear(&p->kind);
	clear(&p->message);
	clear(&p->reason);
	p->code = 0;
}

static int on_open(void *ctx, bool is_list)
{
	struct kube_parse *p = ctx;
	const char *path = p->reader.path, *at;
	bool statuses;

	if (is_list)
		return 0;
	if (!p->reader.depth) {
		begin_object(p);
		clear(&p->type);
	} else if (p->answer == KUBE_LIST && !strcmp(path, p->base)) {
		p->pod.len = 0;
	}
	at = in_pod(p);
	if (at && !strcmp(at, "metadata.ownerReferences[]")) {
		clear(&p->owner_kind);
		clear(&p->owner_name);
		p->controller = false;
	} else if (at && is_container(at, &statuses)) {
		clear(&p->name);
		clear(&p->id);
		clear(&p->last_id);
		clear(&p->image);
	}
	return 0;
}

static void end_container(struct kube_parse *p, bool statuses)
{
	if (!p->name.len)
		return;
	if (statuses && p->id.len)
		add(p, KUBE_CONTAINER, p->name.at, p->name.len, p->id.at, p->id.len);
	if (statuses && p->last_id.len)
		add(p, KUBE_CONTAINER, p->name.at, p->name.len, p->last_id.at, p->last_id.len);
	if (!statuses && p->image.len)
		add(p, KUBE_IMAGE, p->name.at, p->name.len, p->image.at, p->image.len);
}

static void keep_reason(struct kube_parse *p)
{
	if (!strcmp(p->kind.at, "Status"))
		snprintf(p->said, sizeof(p->said), "%s",
			 p->message.len ? p->message.at : p->reason.at);
}

static int end_event(struct kube_parse *p)
{
	const char *type = p->type.at;

	if (!strcmp(type, "ERROR")) {
		keep_reason(p);
		if (p->code == GONE_CODE)
			return -ESTALE;
		return err_set(p->reader.e, -PYE_EFORMAT, "the watch ended: %s",
			       *p->said ? p->said : "no reason is given");
	}
	keep_version(p);
	if (!strcmp(type, "BOOKMARK"))
		return 0;
	if (!strcmp(type, "ADDED") || !strcmp(type, "MODIFIED"))
		return p->listener.pod(p->listener.ctx, &p->pod);
	if (!strcmp(type, "DELETED"))
		return p->listener.gone(p->listener.ctx, &p->pod);
	return 0; /* a kind that is yet to be invented */
}

static int end_whole(struct kube_parse *p)
{
	if (p->answer == KUBE_WATCH)
		return end_event(p);
	keep_version(p);
	keep_reason(p);
	if (p->answer == KUBE_ONE && !strcmp(p->kind.at, "Pod"))
		return p->listener.pod(p->listener.ctx, &p->pod);
	return 0;
}

static int on_close(void *ctx, bool is_list)
{
	struct kube_parse *p = ctx;
	const char *at = in_pod(p), *path = p->reader.path;
	bool statuses;

	if (is_list)
		return 0;
	if (!p->reader.depth)
		return end_whole(p);
	if (p->answer == KUBE_LIST && !strcmp(path, p->base))
		return p->listener.pod(p->listener.ctx, &p->pod);
	if (!at)
		return 0;
	if (!strcmp(at, "metadata.ownerReferences[]")) {
		if (p->controller)
			add(p, KUBE_OWNER, p->owner_kind.at, p->owner_kind.len, p->owner_name.at,
			    p->owner_name.len);
		return 0;
	}
	if (is_container(at, &statuses))
		end_container(p, statuses);
	return 0;
}

int kube_parse__new(struct kube_parse **out, enum kube_answer answer,
		    const struct kube_listener *listener, struct err *e)
{
	static const char *const bases[] = {
		[KUBE_LIST] = "items[]", [KUBE_WATCH] = "object", [KUBE_ONE] = ""
	};
	const struct json_feed_opts opts = { .several = answer == KUBE_WATCH,
					     .text_max = TEXT_MAX };
	struct kube_parse *p = calloc(1, sizeof(*p));
	int err;

	if (!p)
		return -ENOMEM;
	p->answer = answer;
	p->base = bases[answer];
	p->base_depth = answer == KUBE_LIST ? 3 : answer == KUBE_WATCH ? 2 : 1;
	p->listener = *listener;
	p->reader = (struct json_reader){
		.ctx = p, .open = on_open, .close = on_close, .value = on_value
	};
	err = json_feed__new(&p->feed, &p->reader, &opts, e);
	if (err)
		kube_parse__free(p);
	else
		*out = p;
	return err;
}

void kube_parse__free(struct kube_parse *p)
{
	if (!p)
		return;
	json_feed__free(p->feed);
	free(p);
}

int kube_parse__put(struct kube_parse *p, const void *data, size_t len)
{
	p->bytes += len;
	if (p->answer != KUBE_WATCH && p->bytes > ANSWER_MAX)
		return err_set(p->reader.e, -PYE_EFORMAT, "the list has more than %u MB",
			       ANSWER_MAX >> 20);
	return json_feed__put(p->feed, data, len);
}

int kube_parse__end(struct kube_parse *p)
{
	return json_feed__end(p->feed);
}

const char *kube_parse__version(const struct kube_parse *p)
{
	return p->version;
}

const char *kube_parse__reason(const struct kube_parse *p)
{
	return p->said;
}
