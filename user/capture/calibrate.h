/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an event costs: measured on ourselves before the trace, with the real programs at the same
 * kinds of instruction, over frames that we make up. Three intervals (entry-entry, entry-exit,
 * exit-entry) give the parts before and after the time stamp. The kernel does the instruction under a
 * probe itself: a push writes to the stack, and a call upsets the processor's forecast of returns too.
 */
#ifndef PYEBPF_CAPTURE_CALIBRATE_H
#define PYEBPF_CAPTURE_CALIBRATE_H

#include "capture/bpf_load.h"
#include "capture/ring.h"
#include "cpython/plan.h"
#include "profile/trace.h"

struct calibration {
	struct trace_cost jump; /* with both probes on jumps */
	uint32_t push_ns, call_ns; /* what these take more, after the time stamp */
	uint32_t other_ns; /* with a budget: for each other process that has probes of its own in the file */
};

/**
 * calibrate - measure on the calling thread, before any process is traced
 * @rings: as opened; empty again afterwards
 * @slot:  index of a layout that is free
 * @others: measure what other processes add, too
 *
 * Takes a few milliseconds. Our own process is in no table afterwards.
 *
 * Return: 0; a negative errno when the probes cannot be placed: @out is all zero then.
 */
int calibrate(const struct bpf_loaded *bpf, struct ring *rings, uint32_t slot, bool others,
	      struct calibration *out);

/* calibration_apply - the cost of the events of a plan, whose probes sit on instructions of its own */
void calibration_apply(const struct calibration *c, const struct probe_plan *plan,
		       struct trace_cost *out);

#endif
