/* SPDX-License-Identifier: Apache-2.0 */
/* The helpers that the BPF walkers call, over the memory, maps and rings of host.h. */
#ifndef PYEBPF_HOST_BPF_HELPERS_H
#define PYEBPF_HOST_BPF_HELPERS_H

#include "host.h"

#define SEC(name)
#define __uint(name, value)  int(*name)[value]
#define __type(name, type)   __typeof__(type) *name
#define __array(name, value) __typeof__(value) *name[]
#define __hidden
#ifndef __noinline
#define __noinline __attribute__((noinline))
#endif
#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif

#define bpf_probe_read_user(to, size, from)	    host_read(to, size, from, false)
#define bpf_copy_from_user(to, size, from)	    host_read(to, size, from, true)
#define bpf_map_lookup_elem(map, key)		    host_map_lookup(map, key)
#define bpf_map_update_elem(map, key, value, flags) host_map_update(map, key, value)
#define bpf_map_delete_elem(map, key)		    host_map_delete(map, key)
#define bpf_for_each_map_elem(map, round, ctx, flags) \
	host_map_each(map, (long (*)(void *, void *, void *, void *))(round), ctx)
#define bpf_loop(n, round, ctx, flags)	       host_rounds(n, round, ctx)
#define bpf_ringbuf_reserve(ring, size, flags) host_ring_reserve(ring, size)
#define bpf_ringbuf_submit(record, flags)      host_ring_submit(record)
#define bpf_ringbuf_query(ring, what)	       host_ring_query(ring, what)
#define bpf_task_storage_get(map, task, init, flags) \
	((__typeof__((map)->value))host_thread_storage(sizeof(*(map)->value)))
#define bpf_get_current_task_btf()     ((void *)0)
#define bpf_get_current_comm(to, size) __builtin_memset(to, 0, size)
#define bpf_ktime_get_ns()	       host_now()

#endif
