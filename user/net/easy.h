/* SPDX-License-Identifier: Apache-2.0 */
/* Requests with libcurl: what all of them have in common, whoever sends them. */
#ifndef PYEBPF_NET_EASY_H
#define PYEBPF_NET_EASY_H

#include <stdbool.h>

#include <curl/curl.h>

/* Whom to trust, and who we are. "" or NULL: what libcurl knows; nobody in particular. Borrowed. */
struct easy_tls {
	const char *ca_file, *cert_file, *key_file;
	bool insecure; /* whoever answers is believed */
};

/**
 * easy_new - a handle for HTTP/1.1 by TCP or TLS 1.2 or newer
 *
 * Certificates are verified, redirections are not followed, answers not unpacked. Time limits are the caller's but that of
 * connecting, 10 s.
 *
 * Return: curl_easy_cleanup() it; NULL: no memory.
 */
CURL *easy_new(const struct easy_tls *tls);

#endif
