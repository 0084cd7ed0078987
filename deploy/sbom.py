# SPDX-License-Identifier: Apache-2.0
"""What a static pyebpf is made of, as SPDX 2.3 JSON: sbom.py VERSION BINARY. Versions are those of the packages that
the machine has it built with."""
import hashlib
import json
import subprocess
import sys
import time
import os

# Debian package, name, licence, where it comes from.
LIBRARIES = [("libbpf-dev", "libbpf", "LGPL-2.1-only OR BSD-2-Clause", "https://github.com/libbpf/libbpf"),
             ("libelf-dev", "elfutils libelf", "LGPL-3.0-or-later OR GPL-2.0-or-later", "https://sourceware.org/elfutils"),
             ("zlib1g-dev", "zlib", "Zlib", "https://zlib.net"),
             ("libzstd-dev", "zstd", "BSD-3-Clause OR GPL-2.0-only", "https://github.com/facebook/zstd"),
             ("libcapstone-dev", "capstone", "BSD-3-Clause", "https://www.capstone-engine.org"),
             ("libyajl-dev", "yajl", "ISC", "https://lloyd.github.io/yajl"),
             ("libsqlite3-dev", "sqlite", "blessing", "https://sqlite.org"),
             ("libyaml-dev", "libyaml", "MIT", "https://pyyaml.org/wiki/LibYAML"),
             ("libncurses-dev", "ncurses", "X11-distribute-modifications-variant", "https://invisible-island.net/ncurses"),
             ("libmicrohttpd-dev", "libmicrohttpd", "LGPL-2.1-or-later", "https://www.gnu.org/software/libmicrohttpd"),
             ("libcurl4-openssl-dev", "curl", "curl", "https://curl.se"),
             ("libssl-dev", "openssl", "Apache-2.0", "https://www.openssl.org"),
             ("libbrotli-dev", "brotli", "MIT", "https://github.com/google/brotli"),
             ("libxxhash-dev", "xxhash", "BSD-2-Clause", "https://github.com/Cyan4973/xxHash"),
             ("uthash-dev", "uthash", "BSD-1-Clause", "https://troydhanson.github.io/uthash"),
             ("libc6-dev", "glibc", "LGPL-2.1-or-later", "https://www.gnu.org/software/libc")]


def package(ident, name, version, licence, home):
    return {"SPDXID": "SPDXRef-" + ident, "name": name, "versionInfo": version, "licenseConcluded": licence,
            "licenseDeclared": licence, "copyrightText": "NOASSERTION", "downloadLocation": home,
            "filesAnalyzed": False}


def installed(debian):
    return subprocess.run(["dpkg-query", "-W", "-f", "${Version}", debian], check=True, stdout=subprocess.PIPE,
                          encoding="ascii").stdout


def main(version, binary):
    with open(binary, "rb") as f:
        digest = hashlib.sha256(f.read()).hexdigest()
    own = package("pyebpf", "pyebpf", version, "Apache-2.0", "NOASSERTION")
    own["checksums"] = [{"algorithm": "SHA256", "checksumValue": digest}]
    parts = [package(debian, name, installed(debian), licence, home) for debian, name, licence, home in LIBRARIES]
    parts.append(package("speedscope", "speedscope", "1.25.0", "MIT", "https://www.speedscope.app"))
    when = time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())))
    related = [("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-pyebpf")]
    related += [("SPDXRef-pyebpf", "STATIC_LINK" if p["name"] != "speedscope" else "CONTAINS", p["SPDXID"]) for p in parts]
    json.dump({"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
               "name": "pyebpf-" + version, "documentNamespace": "urn:sha256:" + digest,
               "creationInfo": {"created": time.strftime("%Y-%m-%dT%H:%M:%SZ", when), "creators": ["Tool: pyebpf-sbom"]},
               "packages": [own, *parts],
               "relationships": [{"spdxElementId": a, "relationshipType": kind, "relatedSpdxElement": b}
                                 for a, kind, b in related]}, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main(*sys.argv[1:])
