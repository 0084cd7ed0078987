// SPDX-License-Identifier: Apache-2.0

//go:build tools

package tools

import _ "go.opentelemetry.io/ebpf-profiler"
