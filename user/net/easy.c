// SPDX-License-Identifier: Apache-2.0
#include "net/easy.h"

#define CONNECT_MS 10000L

CURL *easy_new(const struct easy_tls *tls)
{
	CURL *h = curl_easy_init();
	CURLcode bad = CURLE_OK;

	if (!h)
		return NULL;
	bad |= curl_easy_setopt(h, CURLOPT_PROTOCOLS_STR, "http,https");
	bad |= curl_easy_setopt(h, CURLOPT_FOLLOWLOCATION, 0L);
	bad |= curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L);
	bad |= curl_easy_setopt(h, CURLOPT_USERAGENT, "pyebpf/" PYEBPF_VERSION);
	bad |= curl_easy_setopt(h, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	bad |= curl_easy_setopt(h, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	bad |= curl_easy_setopt(h, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
	bad |= curl_easy_setopt(h, CURLOPT_SSL_VERIFYPEER, tls->insecure ? 0L : 1L);
	bad |= curl_easy_setopt(h, CURLOPT_SSL_VERIFYHOST, tls->insecure ? 0L : 2L);
	if (tls->ca_file && *tls->ca_file)
		bad |= curl_easy_setopt(h, CURLOPT_CAINFO, tls->ca_file);
	if (tls->cert_file && *tls->cert_file) {
		bad |= curl_easy_setopt(h, CURLOPT_SSLCERT, tls->cert_file);
		bad |= curl_easy_setopt(h, CURLOPT_SSLKEY, tls->key_file);
	}
	if (!bad)
		return h;
	curl_easy_cleanup(h);
	return NULL;
}
