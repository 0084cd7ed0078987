// SPDX-License-Identifier: Apache-2.0
#include "inline/sock_time_out.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "inline/interrupted.h"
#include "inline/remote.h"
#include "inline/time_out.h"
#include "proc/pid.h"

#define LENT_MAX  64 /* others begin anew */
#define SOCKET	  "socket:[" /* then its number */
#define MS_PER_S  1000
#define US_PER_MS 1000
#define NS_PER_MS 1000000u

struct lent {
	pid_t pid, tid;
	int fd; /* ours */
	uint64_t ino;
	int option;
	struct timeval own, now;
	bool begun; /* it waits */
};

struct sock_time_outs {
	pthread_mutex_t lock;
	size_t cnt;
	struct lent of[LENT_MAX];
};

struct sock_time_outs *sock_time_outs__new(void)
{
	struct sock_time_outs *s = calloc(1, sizeof(*s));

	if (s)
		pthread_mutex_init(&s->lock, NULL);
	return s;
}

/* Which one ends such a call, whose first argument is the socket. 0: none does */
static int option_of(uint64_t nr)
{
	static const uint16_t receive[] = { SYS_read,	  SYS_readv,   SYS_preadv2,
					    SYS_recvfrom, SYS_recvmsg, SYS_recvmmsg,
					    SYS_accept,	  SYS_accept4, SYS_splice };
	static const uint16_t send[] = { SYS_write,   SYS_writev,   SYS_pwritev2, SYS_sendto,
					 SYS_sendmsg, SYS_sendmmsg, SYS_connect,  SYS_sendfile };

	if (INTERRUPTED_IS_ONE(nr, receive))
		return SO_RCVTIMEO;
	return INTERRUPTED_IS_ONE(nr, send) ? SO_SNDTIMEO : 0;
}

static bool get(int fd, int option, struct timeval *tv)
{
	socklen_t len = sizeof(*tv);

	return !getsockopt(fd, SOL_SOCKET, option, tv, &len) && len == sizeof(*tv);
}

static bool is_same(const struct timeval *a, const struct timeval *b)
{
	return a->tv_sec == b->tv_sec && a->tv_usec == b->tv_usec;
}

/* 0: there is none, or it takes more than a register's half */
static uint32_t ms_of(const struct timeval *tv)
{
	if (tv->tv_sec < 0 || tv->tv_sec >= INT32_MAX / MS_PER_S)
		return 0;
	return (uint32_t)(tv->tv_sec * MS_PER_S + (tv->tv_usec + US_PER_MS - 1) / US_PER_MS);
}

static struct timeval timeval_of(uint32_t ms)
{
	return (struct timeval){ .tv_sec = ms / MS_PER_S,
				 .tv_usec = (suseconds_t)(ms % MS_PER_S) * US_PER_MS };
}

/* Of something else not even a descriptor is taken: to close that again can do something, and take long, as of a file on NFS. */
static bool find_socket(pid_t pid, int fd, uint64_t *ino)
{
	char path[48], what[64] = "";

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, fd);
	if (readlink(path, what, sizeof(what) - 1) <= 0 ||
	    strncmp(what, SOCKET, strlen(SOCKET)) != 0)
		return false;
	*ino = strtoull(what + strlen(SOCKET), NULL, 10);
	return true;
}

/* The socket of such a call, for close(), with a time-out. False: it has none, or is none. */
static bool take(pid_t pid, const struct user_regs_struct *regs, struct lent *l)
{
	int fd = (int)regs->rdi;

	l->option = option_of(regs->orig_rax);
	l->fd = l->option && find_socket(pid, fd, &l->ino) ? proc_pid_take_fd(pid, fd) : -1;
	if (l->fd < 0)
		return false;
	if (get(l->fd, l->option, &l->own) && ms_of(&l->own))
		return true;
	close(l->fd);
	return false;
}

bool sock_time_out__is_in(pid_t pid, const struct user_regs_struct *regs, uint64_t *takes_ns)
{
	struct lent l;

	if (!take(pid, regs, &l))
		return false;
	close(l.fd);
	*takes_ns = regs->rdi >> 32 ? 0 : (uint64_t)ms_of(&l.own) * NS_PER_MS;
	return true;
}

static bool is_of_same(const struct lent *a, const struct lent *b)
{
	return a->ino == b->ino && a->option == b->option;
}

/* @l: taken over. Of two threads that wait for the same neither is to end too early. */
static void lend(struct sock_time_outs *s, struct lent *l, uint32_t left_ms)
{
	struct lent *same = NULL;

	for (size_t i = 0; i < s->cnt; i++)
		if (is_of_same(&s->of[i], l))
			same = &s->of[i];
	if (same && ms_of(&same->now) > left_ms)
		left_ms = ms_of(&same->now);
	if (!same && left_ms >= ms_of(&l->own)) {
		close(l->fd);
		return;
	}
	l->now = timeval_of(left_ms);
	if (setsockopt(l->fd, SOL_SOCKET, l->option, &l->now, sizeof(l->now)) ||
	    !get(l->fd, l->option, &l->now)) /* as the kernel rounds it */
		l->now = l->own;
	for (size_t i = 0; i < s->cnt; i++)
		if (is_of_same(&s->of[i], l))
			s->of[i].now = l->now;
	s->of[s->cnt++] = *l;
}

/* What the program has set it to, not what we have. */
static void find_own(const struct sock_time_outs *s, struct lent *l)
{
	for (size_t i = 0; i < s->cnt; i++)
		if (is_of_same(&s->of[i], l) && is_same(&s->of[i].now, &l->own)) {
			l->own = s->of[i].own;
			return;
		}
}

bool sock_time_out__keep(struct sock_time_outs *s, pid_t pid, pid_t tid,
			 struct user_regs_struct *regs, uint64_t since_ns)
{
	struct lent l = { .pid = pid, .tid = tid };
	uint32_t left_ms;
	bool over;

	if (!take(pid, regs, &l))
		return false;
	if (s) {
		pthread_mutex_lock(&s->lock);
		find_own(s, &l);
	}
	left_ms = time_out__left_ms(&regs->rdi, ms_of(&l.own), since_ns);
	over = !left_ms && regs->orig_rax != SYS_connect; /* which goes on by itself */
	if (s && s->cnt < LENT_MAX && !over)
		lend(s, &l, left_ms ?: 1);
	else
		close(l.fd);
	if (s)
		pthread_mutex_unlock(&s->lock);
	return over;
}

/* It sleeps where others wake it: a socket that somebody else has for now is an uninterruptible sleep. */
static bool has_begun(const struct lent *l)
{
	char state = remote__state(l->pid, l->tid);

	return state == 'S' || state == 'X' || state == 'Z';
}

/* Unless the program has set it meanwhile. */
static void give_back(const struct lent *l)
{
	struct timeval now;

	if (get(l->fd, l->option, &now) && is_same(&now, &l->now))
		setsockopt(l->fd, SOL_SOCKET, l->option, &l->own, sizeof(l->own));
	close(l->fd);
}

/* All those that wait for the same socket as this one? */
static bool have_begun(const struct sock_time_outs *s, const struct lent *l)
{
	for (size_t i = 0; i < s->cnt; i++)
		if (is_of_same(&s->of[i], l) && !has_begun(&s->of[i]))
			return false;
	return true;
}

/* At once: the next call of a thread whose wait is over must not have what was left of that. */
bool sock_time_outs__give_back_seen(struct sock_time_outs *s)
{
	size_t left = 0;

	if (!s)
		return true;
	pthread_mutex_lock(&s->lock);
	for (size_t i = 0; i < s->cnt; i++) {
		s->of[i].begun = have_begun(s, &s->of[i]);
		if (s->of[i].begun)
			give_back(&s->of[i]);
	}
	for (size_t i = 0; i < s->cnt; i++)
		if (!s->of[i].begun)
			s->of[left++] = s->of[i];
	s->cnt = left;
	pthread_mutex_unlock(&s->lock);
	return !left;
}

void sock_time_outs__give_back(struct sock_time_outs *s)
{
	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	while (s->cnt)
		give_back(&s->of[--s->cnt]);
	pthread_mutex_unlock(&s->lock);
}

void sock_time_outs__free(struct sock_time_outs *s)
{
	if (!s)
		return;
	sock_time_outs__give_back(s);
	pthread_mutex_destroy(&s->lock);
	free(s);
}
