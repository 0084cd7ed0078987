# SPDX-License-Identifier: Apache-2.0
"""An API server of Kubernetes as far as pods of one node are concerned: list and watch with resource versions, bookmarks and 410, as
kube-apiserver 1.34 answers them; and what goes wrong with it, as a test says."""
import contextlib
import copy
import http.server
import json
import ssl
import subprocess
import threading
import time
import urllib.parse

TOKEN = "first.token.value"


def openssl(folder, *args):
    subprocess.run(["openssl", *args], cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def certificate(folder):
    """Of its own authority, for the address."""
    openssl(folder, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", "api.key", "-out", "ca.crt",
            "-subj", "/CN=kube-apiserver", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "30")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "ca.crt", folder / "api.key")
    return context


def pod(name, uid, ids=(), namespace="shop", node="node-1", owner=None, labels=None, annotations=None, image="registry.test:5000/shop/api:1.4.2",
        containers=("app",)):
    """As the API shows it, with some of what nobody here needs. ids: of the containers that have begun."""
    statuses = [{"name": n, "image": "sha256:4711", "imageID": "x@sha256:4711", "containerID": "containerd://" + i, "ready": True, "restartCount": 0,
                 "lastState": {}, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}} for n, i in zip(containers, ids)]
    meta = {"name": name, "namespace": namespace, "uid": uid, "labels": labels or {}, "annotations": annotations or {},
            "managedFields": [{"manager": "kubelet", "operation": "Update", "fieldsV1": {"f:status": {"f:phase": {}}}}]}
    if owner:
        meta["ownerReferences"] = [{"apiVersion": "v1", "kind": "Other", "name": "not-this", "uid": "1"},
                                   {"apiVersion": "apps/v1", "kind": owner[0], "name": owner[1], "uid": "2", "controller": True, "blockOwnerDeletion": True}]
    return {"metadata": meta, "spec": {"nodeName": node, "containers": [
        {"name": n, "image": image, "env": [{"name": "image", "value": "no"}], "ports": [{"name": "http", "containerPort": 80}]} for n in containers]},
        "status": {"phase": "Running" if ids else "Pending", "containerStatuses": statuses, "podIP": "10.0.0.1"}}


class Api:
    """With .down() nothing answers; .expire() forgets all events so far; .answer, when it is set, is called with the request's handler
    and does what it likes, True: that was the answer."""

    def __init__(self, folder, token=TOKEN):
        self.folder = folder
        self.context = certificate(folder)
        self.tokens = {token}
        (folder / "token").write_text(token + "\n")
        self.lock = threading.Condition()
        self.version, self.oldest, self.pods, self.events = 1000, 1000, {}, []
        self.requests, self.answer, self.server, self.port, self.epoch = [], None, None, 0, 0
        self.bookmark_s = 1.0

    # --- pods ---

    def event(self, kind, item):
        with self.lock:
            self.version += 1
            item["metadata"]["resourceVersion"] = str(self.version)
            if kind == "DELETED":
                self.pods.pop(item["metadata"]["uid"], None)
            else:
                self.pods[item["metadata"]["uid"]] = item
            self.events.append((self.version, kind, copy.deepcopy(item)))
            self.lock.notify_all()

    def put(self, item):
        self.event("MODIFIED" if item["metadata"]["uid"] in self.pods else "ADDED", item)

    def delete(self, uid):
        self.event("DELETED", self.pods[uid])

    def expire(self):
        with self.lock:
            self.version += 1
            self.oldest, self.events = self.version, []

    # --- requests ---

    def said(self, verb):
        with self.lock:
            return [r for r in self.requests if r[0] == verb]

    def handle(self, h):
        url = urllib.parse.urlsplit(h.path)
        query = {k: v[0] for k, v in urllib.parse.parse_qs(url.query).items()}
        verb = "watch" if query.get("watch") == "1" else "list" if url.path == "/api/v1/pods" else "get"
        with self.lock:
            self.requests.append((verb, url.path, query, h.headers.get("Authorization"), h.headers.get("User-Agent")))
        if self.answer and self.answer(h, verb):
            return
        if h.headers.get("Authorization") not in {"Bearer " + t for t in self.tokens}:
            self.status(h, 401, "Unauthorized", "Unauthorized")
        elif verb == "get":
            self.get(h, url.path)
        elif query.get("fieldSelector") != "spec.nodeName=node-1":
            self.status(h, 403, "Forbidden", "pods is forbidden")
        elif verb == "list":
            self.list(h)
        else:
            self.watch(h, query)

    def status(self, h, code, reason, message):
        self.reply(h, code, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "reason": reason, "code": code})

    @staticmethod
    def reply(h, code, item):
        body = json.dumps(item).encode()
        h.send_response(code)
        h.send_header("Content-Type", "application/json")
        h.send_header("Content-Length", str(len(body)))
        h.end_headers()
        h.wfile.write(body)

    def get(self, h, path):
        _, _, _, _, namespace, _, name = path.split("/")
        with self.lock:
            found = [p for p in self.pods.values() if (p["metadata"]["namespace"], p["metadata"]["name"]) == (namespace, name)]
        if found:
            self.reply(h, 200, dict(found[0], kind="Pod", apiVersion="v1"))
        else:
            self.status(h, 404, "NotFound", 'pods "%s" not found' % name)

    def list(self, h):
        with self.lock:
            items, version = copy.deepcopy(list(self.pods.values())), self.version
        self.reply(h, 200, {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": str(version)}, "items": items})

    def watch(self, h, query):
        at, epoch, end = int(query["resourceVersion"]), self.epoch, time.monotonic() + int(query["timeoutSeconds"])
        h.send_response(200)
        h.send_header("Content-Type", "application/json")
        h.send_header("Transfer-Encoding", "chunked")
        h.end_headers()
        with self.lock:
            too_old = at < self.oldest
        if too_old:
            self.send(h, {"type": "ERROR", "object": {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 410,
                                                      "message": "too old resource version: %d" % at, "reason": "Expired"}})
        while not too_old and epoch == self.epoch and time.monotonic() < end:
            with self.lock:
                fresh = [e for e in self.events if e[0] > at]
                if not fresh and not self.lock.wait(self.bookmark_s):
                    fresh = [(self.version, "BOOKMARK", {"metadata": {"resourceVersion": str(self.version)}})] if epoch == self.epoch else []
            for version, kind, item in fresh:
                at = version
                self.send(h, {"type": kind, "object": dict(item, kind="Pod", apiVersion="v1")})
        if epoch == self.epoch:
            h.wfile.write(b"0\r\n\r\n")

    @staticmethod
    def send(h, event):
        Api.chunk(h, json.dumps(event).encode() + b"\n")

    @staticmethod
    def chunk(h, data):
        h.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        h.wfile.flush()

    # --- there or not ---

    def up(self):
        api = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                with contextlib.suppress(OSError):
                    api.handle(self)
                self.close_connection = True

            def log_message(self, *args):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            allow_reuse_address = True

            def handle_error(self, request, client_address):
                pass  # the other side has gone

        self.server = Server(("127.0.0.1", self.port), Handler)
        self.server.socket = self.context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def down(self):
        """Watches end, too."""
        with self.lock:
            self.epoch += 1
            self.lock.notify_all()
        self.server.shutdown()
        self.server.server_close()

    def __enter__(self):
        self.up()
        return self

    def __exit__(self, *args):
        self.down()

    def options(self):
        """Of the agent."""
        return ["--kube-api", "https://127.0.0.1:%d" % self.port, "--kube-ca", self.folder / "ca.crt", "--kube-token", self.folder / "token",
                "--node-name", "node-1"]

    def environment(self):
        return {"PYEBPF_KUBE_API": "https://127.0.0.1:%d" % self.port, "PYEBPF_KUBE_CA": str(self.folder / "ca.crt"),
                "PYEBPF_KUBE_TOKEN": str(self.folder / "token")}
