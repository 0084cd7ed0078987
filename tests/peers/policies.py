# SPDX-License-Identifier: Apache-2.0
"""NetworkPolicies, by somebody else's reading of them (the peer netpol): does one let a connection through?"""
import json
import subprocess

import peers

NAME = "app.kubernetes.io/name"


def pod(namespace, name, **labels):
    """By its name label; labels are the namespace's."""
    return {"Internal": {"PodLabels": {NAME: name} if isinstance(name, str) else name,
                         "NamespaceLabels": {"kubernetes.io/metadata.name": namespace, **labels}, "Namespace": namespace},
            "IP": "10.244.0.9"}


def outside(address):
    return {"IP": address}


def allowed(policies, connections):
    """[whether each is]; connections: (from, to, port) or (from, to, port, "UDP")"""
    traffic = [{"Source": source, "Destination": target, "ResolvedPort": port, "Protocol": (rest or ["TCP"])[0]}
               for source, target, port, *rest in connections]
    done = subprocess.run([peers.need("netpol")], input=json.dumps({"policies": policies, "traffic": traffic}), stdout=subprocess.PIPE,
                          encoding="utf-8", check=True, timeout=60)
    return json.loads(done.stdout)
