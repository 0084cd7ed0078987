# SPDX-License-Identifier: Apache-2.0
"""The image of deploy/docker/Dockerfile without a container engine: image.py VERSION ROOTFS OUT.tar.

One layer with all of ROOTFS. The archive is an OCI layout and a docker archive at once, so that ctr, podman, skopeo and
docker load take it. The same input gives the same bytes.
"""
import hashlib
import io
import json
import os
import sys
import tarfile

REFERENCE = "pyebpf:%s"
LAYER = "application/vnd.oci.image.layer.v1.tar"
CONFIG = "application/vnd.oci.image.config.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def add(tar, name, data=None, mode=0o644):
    """A file, or a folder where there is no data."""
    entry = tarfile.TarInfo(name)
    entry.mode, entry.type, entry.size = mode, tarfile.REGTYPE, len(data or b"")
    if data is None:
        entry.type = tarfile.DIRTYPE
    tar.addfile(entry, io.BytesIO(data or b""))


def archive(entries):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for entry in entries:
            add(tar, *entry)
    return out.getvalue()


def read(path):
    with open(path, "rb") as f:
        return f.read()


def layer(rootfs):
    for path, folders, names in os.walk(rootfs):
        folders.sort()
        for name in folders + sorted(names):
            full = os.path.join(path, name)
            yield os.path.relpath(full, rootfs), None if name in folders else read(full), os.stat(full).st_mode & 0o7777


def pack(reference, rootfs, config, out):
    """config: of the image, as its specification has it."""
    blobs = {}

    def blob(kind, data):
        digest = hashlib.sha256(data).hexdigest()
        blobs["blobs/sha256/" + digest] = data
        return {"mediaType": kind, "digest": "sha256:" + digest, "size": len(data)}

    def document(kind, value):
        return blob(kind, json.dumps(value, sort_keys=True).encode())

    files = blob(LAYER, archive(layer(rootfs)))
    config = document(CONFIG, {
        "architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": [files["digest"]]},
        "config": config})
    manifest = document(MANIFEST, {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [files]})
    full = reference if "/" in reference else "docker.io/library/" + reference
    manifest["annotations"] = {"io.containerd.image.name": full, "org.opencontainers.image.ref.name": reference.rpartition(":")[2]}
    index = {"schemaVersion": 2, "manifests": [manifest]}
    at = {key["digest"]: "blobs/sha256/" + key["digest"].partition(":")[2] for key in (files, config)}
    docker = [{"Config": at[config["digest"]], "RepoTags": [reference], "Layers": [at[files["digest"]]]}]
    with open(out, "wb") as f:
        f.write(archive([("oci-layout", b'{"imageLayoutVersion":"1.0.0"}'), ("index.json", json.dumps(index).encode()),
                         ("manifest.json", json.dumps(docker).encode()), *sorted(blobs.items())]))


def main(version, rootfs, out):
    pack(REFERENCE % version, rootfs,
         {"Entrypoint": ["/usr/bin/pyebpf"], "Cmd": ["agent"], "Env": ["PATH=/usr/bin"], "WorkingDir": "/",
          "Labels": {"org.opencontainers.image.title": "pyebpf", "org.opencontainers.image.version": version,
                     "org.opencontainers.image.licenses": "Apache-2.0"},
          "Healthcheck": {"Test": ["CMD", "/usr/bin/pyebpf", "doctor"]}}, out)
    print(out)


if __name__ == "__main__":
    main(*sys.argv[1:])
