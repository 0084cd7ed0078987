// SPDX-License-Identifier: Apache-2.0
/* For the program without shared libraries: what Debian's libcurl needs (GSS-API, LDAP) is not there as static libraries.
 * That program keeps profiles, and sends none. */
#include "sink/http.h"

#include <errno.h>

int http__new(struct http **out, struct err *e)
{
	(void)out;
	err_hint(e, "the package for Debian has them");
	return err_set(
		e, -PYE_EOUTPUT,
		"this pyebpf is one file without libraries, and has no sinks and asks no server");
}

void http__free(struct http *h)
{
	(void)h;
}

int http_call__new(struct http_call **out, struct http *h, const struct sink_spec *spec,
		   size_t reply_max, bool whole)
{
	(void)out, (void)h, (void)spec, (void)reply_max, (void)whole;
	return -ENOSYS;
}

void http_call__free(struct http_call *c)
{
	(void)c;
}

int http_call__start(struct http_call *c, unsigned int url_number, const struct sink_request *r,
		     struct err *e)
{
	(void)c, (void)url_number, (void)r, (void)e;
	return -ENOSYS;
}

void http_call__stop(struct http_call *c)
{
	(void)c;
}

bool http__next(struct http *h, struct http_result *out)
{
	(void)h, (void)out;
	return false;
}

int http__wait(struct http *h, const int *fds, unsigned int fd_cnt, int ms)
{
	(void)h, (void)fds, (void)fd_cnt, (void)ms;
	return -ENOSYS;
}
