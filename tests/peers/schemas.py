# SPDX-License-Identifier: Apache-2.0
"""Strict JSON schemas of Kubernetes' own objects for kubeconform, out of swagger.json of the module that kubeall is built from.

kubeconform's own are on the network, and take members that nobody knows."""
import json
import pathlib
import subprocess

import peers

SWAGGER = "api/openapi-spec/swagger.json"
# Their definition says "string"; what is written in manifests is a number, too.
LOOSE = {"io.k8s.apimachinery.pkg.api.resource.Quantity": ("string", "number"), "io.k8s.apimachinery.pkg.util.intstr.IntOrString": ("string", "integer")}


def module():
    """The folder of k8s.io/kubernetes, fetched if need be. None where that cannot be."""
    if not peers.go():
        return None
    done = subprocess.run([peers.go(), "mod", "download", "-json", "k8s.io/kubernetes"], cwd=peers.PEERS["kubeall"].folder,
                          env=peers.go_env(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False, timeout=300)
    return pathlib.Path(json.loads(done.stdout)["Dir"]) if done.returncode == 0 else None


def tighten(definitions):
    for name, kinds in LOOSE.items():
        definitions[name] = {"oneOf": [{"type": kind} for kind in kinds]}
    for value in definitions.values():
        if "properties" in value and not value.get("x-kubernetes-preserve-unknown-fields"):
            value.setdefault("additionalProperties", False)


def named_in(value):
    """Definitions that a value refers to."""
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"].rpartition("/")[2]
        for part in value.values():
            yield from named_in(part)
    elif isinstance(value, list):
        for part in value:
            yield from named_in(part)


def closure(definitions, name):
    todo, found = [name], set()
    while todo:
        one = todo.pop()
        if one not in found:
            found.add(one)
            todo += named_in(definitions[one])
    return {one: definitions[one] for one in sorted(found)}


def write(folder):
    """One file for each kind, KIND-GROUP-VERSION.json: how many."""
    source = module()
    if not source:
        return 0
    definitions, cnt = json.loads((source / SWAGGER).read_text("utf-8"))["definitions"], 0
    tighten(definitions)
    for name, definition in definitions.items():
        for kind in definition.get("x-kubernetes-group-version-kind", ()):
            if kind["kind"] in ("DeleteOptions", "WatchEvent"):
                continue
            parts = [kind["kind"].lower(), kind["group"].split(".")[0], kind["version"]]
            (folder / ("-".join(p for p in parts if p) + ".json")).write_text(
                json.dumps({"$ref": "#/definitions/" + name, "definitions": closure(definitions, name)}), "utf-8")
            cnt += 1
    return cnt
