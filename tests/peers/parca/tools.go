// SPDX-License-Identifier: Apache-2.0

//go:build tools

package tools

import _ "github.com/parca-dev/parca/cmd/parca"
