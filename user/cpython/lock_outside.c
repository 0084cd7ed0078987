// SPDX-License-Identifier: Apache-2.0
#include "cpython/lock_outside.h"

#include <stdbool.h>
#include <string.h>

#include "proc/mem.h"

#define SLOTS	    64 /* words of a frame's variables and stack that are looked through */
#define OBJECT_HEAD 352 /* a frame object's variables begin here or later */
#define FRAME_HEAD  64 /* likewise, of a frame that is none */
#define AGAIN_NS    100000000u
#define TP_NAME	    8 /* behind the head of a type object, which has a size */

enum {
	ROLE_NONE,
	ROLE_WAIT, /* wait() of a Condition, an Event, a Barrier */
	ROLE_WAIT_FOR,
	ROLE_LOCK, /* Condition's own __enter__(), _acquire_restore() */
	ROLE_ACQUIRE, /* of a Semaphore, an RLock written in Python */
	ROLE_BARRIER,
	ROLE_EVENT,
	ROLE_SEMAPHORE,
	ROLE_JOIN,
	ROLE_QUEUE,
	ROLE_FUTURE,
	ROLE_SEMLOCK,
	ROLE_IMPORT
};

struct role_row {
	const char *file, *name; /* end of the path; name NULL: any */
	lock_role role;
};

/* clang-format off */
static const struct role_row rows[] = {
	{ "/threading.py", "wait",                  ROLE_WAIT },
	{ "/threading.py", "wait_for",              ROLE_WAIT_FOR },
	{ "/threading.py", "__enter__",             ROLE_LOCK },
	{ "/threading.py", "_acquire_restore",      ROLE_LOCK },
	{ "/threading.py", "acquire",               ROLE_ACQUIRE },
	{ "/threading.py", "release",               ROLE_SEMAPHORE },
	{ "/threading.py", "_wait",                 ROLE_BARRIER },
	{ "/threading.py", "_enter",                ROLE_BARRIER },
	{ "/threading.py", "set",                   ROLE_EVENT },
	{ "/threading.py", "clear",                 ROLE_EVENT },
	{ "/threading.py", "join",                  ROLE_JOIN },
	{ "/threading.py", "_wait_for_tstate_lock", ROLE_JOIN },
	{ "/queue.py", NULL,                        ROLE_QUEUE },
	{ "/concurrent/futures/_base.py", NULL,     ROLE_FUTURE },
	{ "/multiprocessing/synchronize.py", NULL,  ROLE_SEMLOCK },
	{ "<frozen importlib._bootstrap>", "acquire",   ROLE_IMPORT },
	{ "<frozen importlib._bootstrap>", "__enter__", ROLE_IMPORT },
};
static const struct { const char *name; enum pye_lock_type type; } type_rows[] = {
	{ "_thread.lock",             PYE_LOCK_LOCK },
	{ "_thread.RLock",            PYE_LOCK_RLOCK },
	{ "_queue.SimpleQueue",       PYE_LOCK_SIMPLE_QUEUE },
	{ "_multiprocessing.SemLock", PYE_LOCK_SEMLOCK },
};
/* clang-format on */

#define ROWS(array) (sizeof(array) / sizeof((array)[0]))

lock_role lock_role_of(const char *file, const char *name)
{
	size_t len = strlen(file);

	for (size_t i = 0; i < ROWS(rows); i++) {
		size_t end = strlen(rows[i].file);

		if (len >= end && strcmp(file + len - end, rows[i].file) == 0 &&
		    (!rows[i].name || strcmp(name, rows[i].name) == 0))
			return rows[i].role;
	}
	return ROLE_NONE;
}

/* Who waits by a Condition. */
static enum pye_lock_type owner_of_condition(const lock_role *outer, size_t cnt)
{
	switch (cnt ? outer[0] : ROLE_NONE) {
	case ROLE_WAIT:
	case ROLE_EVENT:
		return cnt > 1 && outer[1] == ROLE_FUTURE ? PYE_LOCK_FUTURE : PYE_LOCK_EVENT;
	case ROLE_WAIT_FOR:
		return cnt > 1 && outer[1] == ROLE_BARRIER ? PYE_LOCK_BARRIER : PYE_LOCK_CONDITION;
	case ROLE_BARRIER:
		return PYE_LOCK_BARRIER;
	case ROLE_ACQUIRE:
	case ROLE_SEMAPHORE:
		return PYE_LOCK_SEMAPHORE;
	case ROLE_QUEUE:
		return PYE_LOCK_QUEUE;
	case ROLE_FUTURE:
		return PYE_LOCK_FUTURE;
	default:
		return PYE_LOCK_CONDITION;
	}
}

enum pye_lock_type lock_type_by_roles(const lock_role *roles, size_t cnt)
{
	switch (cnt ? roles[0] : ROLE_NONE) {
	case ROLE_WAIT:
	case ROLE_LOCK:
		/* taking its lock back, it is still in wait() */
		if (roles[0] == ROLE_LOCK && cnt > 2 && roles[1] == ROLE_WAIT &&
		    roles[2] != ROLE_NONE)
			return owner_of_condition(roles + 2, cnt - 2);
		return owner_of_condition(roles + 1, cnt - 1);
	case ROLE_ACQUIRE:
		return PYE_LOCK_RLOCK;
	case ROLE_JOIN:
		return PYE_LOCK_THREAD;
	case ROLE_QUEUE:
		return PYE_LOCK_QUEUE;
	case ROLE_SEMLOCK:
		return PYE_LOCK_SEMLOCK;
	case ROLE_IMPORT:
		return PYE_LOCK_IMPORT;
	default:
		return PYE_LOCK_UNKNOWN;
	}
}

struct asking {
	const struct proc_mem *mem;
	const struct pye_pylayout *l;
	struct lock_memo *memo;
	uint64_t futex;
};

static enum pye_lock_type type_read(const struct asking *q, uint64_t type)
{
	uint64_t name;
	char text[32];

	if (proc_mem__word(q->mem, type + q->l->str_length + TP_NAME, &name) ||
	    proc_mem__read(q->mem, name, text, sizeof(text)))
		return PYE_LOCK_UNKNOWN;
	text[sizeof(text) - 1] = '\0';
	for (size_t i = 0; i < ROWS(type_rows); i++)
		if (strcmp(text, type_rows[i].name) == 0)
			return type_rows[i].type;
	return PYE_LOCK_UNKNOWN;
}

/* Types are few, live long, and most of what is asked is none of a lock. */
static enum pye_lock_type type_of(const struct asking *q, uint64_t type)
{
	size_t slot = (size_t)(type >> 4) % LOCK_MEMO;

	if (q->memo->types[slot].address != type) {
		q->memo->types[slot].address = type;
		q->memo->types[slot].type = type_read(q, type);
	}
	return q->memo->types[slot].type;
}

static bool may_be_object(uint64_t address)
{
	return address >= 4096 && address < 1ull << 47 && address % 8 == 0;
}

/* The head of an object of which we know the size: that of a str up to its length. Its type is the last word
 * of it. Return: the type of a lock if this is one whose first word is @word, or any if that is 0. */
static enum pye_lock_type lock_at(const struct asking *q, uint64_t object, uint64_t word)
{
	uint32_t head = q->l->str_length;
	uint64_t words[2];

	if (!may_be_object(object) || head < 16 || head > 64 ||
	    proc_mem__read(q->mem, object + head - 8, words, sizeof(words)) ||
	    (word && words[1] != word) || !may_be_object(words[0]))
		return PYE_LOCK_UNKNOWN;
	return type_of(q, words[0]);
}

/* A lock, or a bound method of one. */
static bool try_slot(const struct asking *q, uint64_t slot, struct lock_found *out)
{
	uint64_t self;

	slot &= ~7ULL; /* tags */
	out->object = slot;
	out->type = lock_at(q, slot, q->futex);
	if (out->type)
		return true;
	if (!may_be_object(slot) || proc_mem__word(q->mem, slot + q->l->str_length + 8, &self) ||
	    !may_be_object(self))
		return false;
	out->object = self;
	out->type = lock_at(q, self, q->futex);
	return out->type != PYE_LOCK_UNKNOWN;
}

static bool look_through(const struct asking *q, uint64_t frame, struct lock_found *out)
{
	uint64_t slots[SLOTS];
	bool object = q->l->flags & PYE_LAYOUT_FRAME_OBJECT;
	uint64_t from = frame + (object ? OBJECT_HEAD : FRAME_HEAD);
	ssize_t size = proc_mem__read_some(q->mem, from, slots, sizeof(slots));

	for (ssize_t i = 0; i < size / 8; i++)
		if (try_slot(q, slots[i], out))
			return true;
	return false;
}

static bool find_anew(const struct asking *q, const struct pye_sample_lock *where,
		      struct lock_found *out)
{
	if (where->parked) {
		out->object = where->parked - q->l->str_length;
		out->type = lock_at(q, out->object, 0);
		if (out->type)
			return true;
	}
	return where->frame && look_through(q, where->frame, out);
}

struct pye_sample_lock lock_where(const struct proc_mem *mem, uint64_t frame, uint64_t futex)
{
	struct pye_sample_lock where = { .frame = frame };
	uint64_t word;

	if (!proc_mem__word(mem, futex - 8, &word))
		where.parked = word;
	return where;
}

struct lock_found lock_find(const struct proc_mem *mem, const struct pye_pylayout *l,
			    struct lock_memo *memo, uint64_t futex,
			    const struct pye_sample_lock *where, uint64_t now_ns)
{
	const struct asking q = { mem, l, memo, futex };
	size_t slot = (size_t)(futex >> 4) % LOCK_MEMO;
	struct lock_found found = { 0 };

	if (memo->known[slot].futex == futex) {
		found.object = memo->known[slot].object;
		found.type = lock_at(&q, found.object, futex);
		if (found.type)
			return found;
		if (now_ns < memo->known[slot].asked_ns + AGAIN_NS && !found.object)
			return (struct lock_found){ 0 };
	}
	if (!find_anew(&q, where, &found))
		found = (struct lock_found){ 0 };
	memo->known[slot].futex = futex;
	memo->known[slot].object = found.object;
	memo->known[slot].asked_ns = now_ns;
	return found;
}
