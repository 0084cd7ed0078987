// SPDX-License-Identifier: Apache-2.0
#include "sink/spec.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/optvalue.h"
#include "sink/sink.h"

#define SECOND	     1000000000ull
#define INTERVAL_MAX (600 * SECOND)

enum kind {
	KIND_TEXT,
	KIND_FLAG,
	KIND_DURATION
};

/* clang-format off */
static const struct key {
	const char *name;
	enum kind kind;
	size_t offset, size;
} keys[] = {
#define TEXT(name, member) { name, KIND_TEXT, offsetof(struct sink_spec, member), sizeof(((struct sink_spec *)0)->member) }
	TEXT("name",          name),
	TEXT("url",           url),
	TEXT("database",      database),
	TEXT("user",          user),
	TEXT("tenant",        tenant),
	TEXT("password-file", password_file),
	TEXT("token-file",    token_file),
	TEXT("ca-file",       ca_file),
	TEXT("cert-file",     cert_file),
	TEXT("key-file",      key_file),
#undef TEXT
	{ "insecure",    KIND_FLAG,     offsetof(struct sink_spec, insecure), 0 },
	{ "timeout",     KIND_DURATION, offsetof(struct sink_spec, timeout_ns), 0 },
	{ "max-age",     KIND_DURATION, offsetof(struct sink_spec, max_age_ns), 0 },
	{ "max-backoff", KIND_DURATION, offsetof(struct sink_spec, max_backoff_ns), 0 },
	{ "interval",    KIND_DURATION, offsetof(struct sink_spec, interval_ns), 0 },
};
/* clang-format on */

void sink_spec_init(struct sink_spec *s)
{
	memset(s, 0,
	       sizeof(*s)); /* with what lies between the members: specs are compared as bytes */
	s->timeout_ns = 30 * SECOND;
	s->max_backoff_ns = 300 * SECOND;
}

static bool is_key(const char *name, const char *given)
{
	for (; *name && *given; name++, given++)
		if (*name != *given && !(*name == '-' && *given == '_'))
			return false;
	return *name == *given;
}

/* What goes into headers and addresses has no control characters. */
static bool is_plain(const char *value)
{
	for (; *value; value++)
		if ((unsigned char)*value < ' ' || *value == 0x7f)
			return false;
	return true;
}

static int set_value(struct sink_spec *s, const struct key *k, const char *value, struct err *e)
{
	char *field = (char *)s + k->offset;
	uint64_t ns;

	switch (k->kind) {
	case KIND_TEXT:
		if (strlen(value) >= k->size || !is_plain(value))
			return err_set(e, -PYE_EUSAGE, "sink: %s is too long or no text", k->name);
		strcpy(field, value);
		return 0;
	case KIND_FLAG:
		if (strcmp(value, "true") != 0 && strcmp(value, "false") != 0)
			return err_set(e, -PYE_EUSAGE, "sink: %s is true or false", k->name);
		*(bool *)field = !strcmp(value, "true");
		return 0;
	default:
		if (opt_duration(value, &ns))
			return err_set(e, -PYE_EUSAGE,
				       "sink: %s: want a time as 30s, 5m or 2h: %.40s", k->name,
				       value);
		memcpy(field, &ns, sizeof(ns));
		s->has_max_age |= k->offset == offsetof(struct sink_spec, max_age_ns);
		return 0;
	}
}

static int set_type(struct sink_spec *s, const char *type, struct err *e)
{
	char names[128] = "";
	size_t n = 0;

	s->ops = sink_by_type(type);
	if (s->ops)
		return 0;
	for (unsigned int i = 0; sinks[i]; i++)
		n += (size_t)snprintf(names + n, sizeof(names) - n, "%s%s", i ? ", " : "",
				      sinks[i]->type);
	return err_set(e, -PYE_EUSAGE, "there is no sink %.40s: there are %s", type, names);
}

int sink_spec__set(struct sink_spec *s, const char *key, const char *value, struct err *e)
{
	if (is_key("type", key))
		return set_type(s, value, e);
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (is_key(keys[i].name, key))
			return set_value(s, &keys[i], value, e);
	return err_set(e, -PYE_EUSAGE, "sink: there is no %.40s", key);
}

static int check_url(const char *url, struct err *e)
{
	const char *host = strstr(url, "://");

	if (strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0)
		return err_set(e, -PYE_EUSAGE,
			       "sink: want an address that begins with http:// or "
			       "https://");
	host += 3;
	if (memchr(host, '@', strcspn(host, "/?#")))
		return err_set(e, -PYE_EUSAGE,
			       "sink: no name and password in the address, everybody "
			       "can read it: use user= and password-file=");
	if (!*host || *host == '/' || strpbrk(host, "?#"))
		return err_set(e, -PYE_EUSAGE,
			       "sink: want an address of the form "
			       "http://host:port/path");
	return 0;
}

void sink_spec__url(const struct sink_spec *s, unsigned int i, char *out, size_t size)
{
	const char *at = s->url;
	unsigned int cnt = 1;
	size_t len;

	for (const char *c = s->url; *c; c++)
		cnt += *c == ' ';
	for (i %= cnt; i; i--)
		at = strchr(at, ' ') + 1;
	len = strcspn(at, " ");
	while (len && at[len - 1] == '/')
		len--;
	snprintf(out, size, "%.*s", (int)len, at);
}

static int check_urls(const struct sink_spec *s, struct err *e)
{
	char url[sizeof(s->url)];
	unsigned int cnt = 1;
	int err = 0;

	for (const char *c = s->url; *c; c++)
		cnt += *c == ' ';
	if (cnt > SINK_URLS_MAX)
		return err_set(e, -PYE_EUSAGE, "sink: at most %u addresses", SINK_URLS_MAX);
	for (unsigned int i = 0; i < cnt && !err; i++) {
		sink_spec__url(s, i, url, sizeof(url));
		err = check_url(url, e);
	}
	return err;
}

int sink_spec__check(struct sink_spec *s, struct err *e)
{
	int err;

	if (!s->ops)
		return err_set(e, -PYE_EUSAGE, "sink: of which type? (%s, ...)", sinks[0]->type);
	err = check_urls(s, e);
	if (err)
		return err;
	if (!*s->name)
		snprintf(s->name, sizeof(s->name), "%s", s->ops->type);
	if (!s->has_max_age)
		s->max_age_ns = s->ops->max_age_ns;
	if (!*s->cert_file != !*s->key_file)
		return err_set(e, -PYE_EUSAGE, "sink %s: cert-file and key-file go together",
			       s->name);
	if (*s->token_file && *s->password_file)
		return err_set(e, -PYE_EUSAGE, "sink %s: a token or a password, not both", s->name);
	if (s->timeout_ns < SECOND / 10)
		return err_set(e, -PYE_EUSAGE, "sink %s: timeout: at least 100ms", s->name);
	if (s->interval_ns > INTERVAL_MAX)
		return err_set(e, -PYE_EUSAGE, "sink %s: interval: at most 10m", s->name);
	if (s->max_backoff_ns < SECOND)
		return err_set(e, -PYE_EUSAGE, "sink %s: max-backoff: at least 1s", s->name);
	return 0;
}

int sink_spec__parse(struct sink_spec *s, const char *text, struct err *e)
{
	char copy[2048], *rest = copy, *part;
	int err = 0;

	if (strlen(text) >= sizeof(copy))
		return err_set(e, -PYE_EUSAGE, "sink: it is too long");
	strcpy(copy, text);
	sink_spec_init(s);
	for (unsigned int i = 0; !err && (part = strsep(&rest, ",")); i++) {
		char *equals = strchr(part, '=');

		if (!equals)
			return err_set(e, -PYE_EUSAGE, "sink: want %s: %.60s",
				       i ? "KEY=VALUE" : "TYPE=URL", part);
		*equals = '\0';
		err = i ? sink_spec__set(s, part, equals + 1, e)
			: sink_spec__set(s, "type", part, e);
		if (!i && !err)
			err = sink_spec__set(s, "url", equals + 1, e);
	}
	return err ? err : sink_spec__check(s, e);
}

int sink_list__add(struct sink_list *l, const struct sink_spec *s, struct err *e)
{
	if (l->cnt == SINK_MAX)
		return err_set(e, -PYE_EUSAGE, "at most %u sinks", SINK_MAX);
	for (uint32_t i = 0; i < l->cnt; i++)
		if (!strcmp(l->items[i].name, s->name))
			return err_set(e, -PYE_EUSAGE,
				       "two sinks are called %s: give one a name=", s->name);
	l->items[l->cnt++] = *s;
	return 0;
}
