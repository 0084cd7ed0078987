/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shape of a capture file; docs/capture-format.md says the same in prose. Numbers of fixed size
 * are little endian; everything inside a payload is a varint or a string (varint.h).
 */
#ifndef PYEBPF_CAPFILE_FORMAT_H
#define PYEBPF_CAPFILE_FORMAT_H

#include <stdint.h>

#define CAP_MAGIC "\x89PYEBPF\n"
#define CAP_MAJOR 1
/* 1: what came before, in INFO; 2: samples; 3: their locks; 4: memory, types of locks, kinds of functions */
#define CAP_MINOR 4

/* The file header: magic, u16 major, u16 minor, u32 low half of the XXH64 of the bytes before. */
enum {
	CAP_AT_MAGIC = 0,
	CAP_AT_MAJOR = 8,
	CAP_AT_MINOR = 10,
	CAP_AT_SUM = 12,
	CAP_HEADER_SIZE = 16
};

/* A chunk's header; the last field is the XXH64 of the header's bytes before it. */
#define CAP_CHUNK_MAGIC 0x43455950u /* "PYEC" */
enum {
	CAP_CHUNK_AT_MAGIC = 0, /* u32 */
	CAP_CHUNK_AT_TYPE = 4, /* u16, enum cap_chunk_type */
	CAP_CHUNK_AT_FLAGS = 6, /* u16 */
	CAP_CHUNK_AT_STORED = 8, /* u32, bytes of the payload in the file */
	CAP_CHUNK_AT_RAW = 12, /* u32, bytes of the payload uncompressed */
	CAP_CHUNK_AT_SEQ = 16, /* u64, number of the chunk in the file, from 0 */
	CAP_CHUNK_AT_MIN_TS = 24, /* u64, no event of the chunk is earlier */
	CAP_CHUNK_AT_MAX_TS = 32, /* u64, none is later */
	CAP_CHUNK_AT_PAYLOAD = 40, /* u64, XXH64 of the payload as stored */
	CAP_CHUNK_AT_SUM = 48, /* u64 */
	CAP_CHUNK_HEADER_SIZE = 56
};

/* Append only; a reader skips the types that it does not know. */
enum cap_chunk_type {
	CAP_CHUNK_INFO = 1,
	CAP_CHUNK_DATA = 2,
	CAP_CHUNK_END = 3
};

#define CAP_FLAG_ZSTD 1u /* the payload is one zstd frame */

/* The events of a thread: varint (time since the last one << 3 | kind), with an entry its function.
 * Kinds are those of enum trace_kind, and one that escapes to: varint type, string body. */
#define CAP_KIND_BITS	8u
#define CAP_KIND_EXTEND 7u
enum cap_extend_type {
	CAP_EXTEND_GAP = 0,
	CAP_EXTEND_SAMPLE = 1, /* 1.2 */
	CAP_EXTEND_MEMORY = 2, /* 1.4 */
	CAP_EXTEND_LOCK = 3 /* 1.4: of the sample that comes next */
};

#define CAP_THREAD_DATA 1u /* flags of a thread: it has a stream in this chunk */
#define CAP_THREAD_GONE 2u /* no later chunk has it */

/* Bounds that the writer keeps and the reader demands. */
#define CAP_RAW_MAX	(64u << 20) /* payload, uncompressed */
#define CAP_STRING_MAX	65535u /* bytes of a string */
#define CAP_ROOTS_MAX	1024u /* import roots of a process */
#define CAP_DEPTH_MAX	(1u << 20) /* open frames of a thread */
#define CAP_FRAMES_MAX	(1u << 22) /* open frames of all threads */
#define CAP_THREADS_MAX (1u << 18) /* threads in a chunk */
#define CAP_TS_MAX	(1ull << 60) /* of any time stamp: 36 years of uptime */

#endif
