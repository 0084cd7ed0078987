/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an event costs: measured on ourselves before the trace, with the real programs at the same
 * kinds of instruction, over frames that we make up. Four intervals (entry-entry, entry-exit,
 * exit-exit, exit-entry) give the parts before and after the time stamp.
 */
#ifndef PYEBPF_CAPTURE_CALIBRATE_H
#define PYEBPF_CAPTURE_CALIBRATE_H

#include "capture/bpf_load.h"
#include "capture/ring.h"
#include "profile/trace.h"

/**
 * calibrate - measure on the calling thread, before any process is traced
 * @rings: as opened; empty again afterwards
 * @slot:  index of a layout that is free
 *
 * Takes a few milliseconds. Our own process is in no table afterwards.
 *
 * Return: 0; a negative errno when the probes cannot be placed: @out is all zero then.
 */
int calibrate(const struct bpf_loaded *bpf, struct ring *rings, uint32_t slot,
	      struct trace_cost *out);

#endif
