// SPDX-License-Identifier: Apache-2.0

// Whether NetworkPolicies let connections through, by cyclonus' reading of the rules: a JSON object with "policies" and
// "traffic" on stdin, a list of booleans on stdout.
package main

import (
	"encoding/json"
	"log"
	"os"

	"github.com/mattfenwick/cyclonus/pkg/matcher"
	networking "k8s.io/api/networking/v1"
)

func main() {
	var asked struct {
		Policies []*networking.NetworkPolicy
		Traffic  []*matcher.Traffic
	}
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		log.Fatal(err)
	}
	policy := matcher.BuildNetworkPolicies(true, asked.Policies)
	allowed := []bool{}
	for _, one := range asked.Traffic {
		allowed = append(allowed, policy.IsTrafficAllowed(one).IsAllowed())
	}
	if err := json.NewEncoder(os.Stdout).Encode(allowed); err != nil {
		log.Fatal(err)
	}
}
