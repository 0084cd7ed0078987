# SPDX-License-Identifier: Apache-2.0
"""What kube-proxy and the cluster's DNS do, as far as one node for tests needs it: services.py API TOKEN DNS_ADDRESS [NAMESPACE/NAME=HOST:PORT...]

Each service's address is put on the loopback interface of this network namespace, and its ports are passed on to one of the pods behind
it, or, for services named as arguments, to that place. Names are those of services."""
import asyncio
import contextlib
import json
import socket
import ssl
import struct
import subprocess
import sys
import urllib.request

SUFFIX = ".svc.cluster.local"
NAME_ERROR, RECORD_A, TTL_S = 3, 1, 1


def ask(api, token, path):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    request = urllib.request.Request(api + path, headers={"Authorization": "Bearer " + token})
    with urllib.request.urlopen(request, timeout=5, context=context) as answer:
        return json.load(answer)["items"]


class Names(asyncio.DatagramProtocol):
    def __init__(self):
        self.addresses, self.transport = {}, None

    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, addr):
        with contextlib.suppress(IndexError, struct.error, UnicodeDecodeError):
            self.transport.sendto(self.answer(data), addr)

    def answer(self, data):
        at, labels = 12, []
        while data[at]:
            labels.append(data[at + 1:at + 1 + data[at]].decode())
            at += data[at] + 1
        kind = struct.unpack_from("!H", data, at + 1)[0]
        address = self.addresses.get(".".join(labels).lower())
        found = address is not None and kind == RECORD_A
        head = data[:2] + struct.pack("!HHHHH", 0x8580 | (0 if address else NAME_ERROR), 1, int(found), 0, 0)
        record = b"\xc0\x0c" + struct.pack("!HHIH", RECORD_A, 1, TTL_S, 4) + socket.inet_aton(address) if found else b""
        return head + data[12:at + 5] + record


class Services:
    def __init__(self, api, token, fixed):
        self.api, self.token, self.fixed, self.names = api, token, fixed, Names()
        self.servers, self.backends = {}, {}

    async def copy(self, reader, writer):
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
            writer.write_eof()

    async def serve(self, key, reader, writer):
        with contextlib.suppress(OSError):
            theirs_in, theirs_out = await asyncio.open_connection(*self.backends[key])
            await asyncio.gather(self.copy(reader, theirs_out), self.copy(theirs_in, writer))
            theirs_out.close()
        writer.close()

    async def listen(self, key, address):
        subprocess.run(["ip", "addr", "replace", address + "/32", "dev", "lo"], check=True)
        self.servers[key] = await asyncio.start_server(lambda r, w: self.serve(key, r, w), address, key[1])

    def backend(self, name, port, slices):
        if name in self.fixed:
            host, _, number = self.fixed[name].rpartition(":")
            return host, int(number)
        for item in slices:
            meta = item["metadata"]
            if "%s/%s" % (meta["namespace"], meta["labels"].get("kubernetes.io/service-name")) != name:
                continue
            ports = {p.get("name"): p["port"] for p in item.get("ports") or ()}
            for end in item.get("endpoints") or ():
                if end.get("conditions", {}).get("ready") and port.get("name") in ports:
                    return end["addresses"][0], ports[port.get("name")]
        return None

    async def look(self):
        loop = asyncio.get_running_loop()
        services = await loop.run_in_executor(None, ask, self.api, self.token, "/api/v1/services")
        slices = await loop.run_in_executor(None, ask, self.api, self.token, "/apis/discovery.k8s.io/v1/endpointslices")
        for item in services:
            meta, spec = item["metadata"], item["spec"]
            address = spec.get("clusterIP", "None")
            if address == "None":
                continue
            self.names.addresses["%s.%s%s" % (meta["name"], meta["namespace"], SUFFIX)] = address
            for port in spec["ports"] if meta["name"] != "kubernetes" else ():
                key, name = (meta["uid"], port["port"]), "%s/%s" % (meta["namespace"], meta["name"])
                target = self.backend(name, port, slices)
                if target:
                    self.backends[key] = target
                    if key not in self.servers:
                        await self.listen(key, address)

    async def main(self, dns):
        await asyncio.get_running_loop().create_datagram_endpoint(lambda: self.names, local_addr=(dns, 53))
        while True:
            with contextlib.suppress(OSError, ValueError):
                await self.look()
            await asyncio.sleep(0.3)


if __name__ == "__main__":
    asyncio.run(Services(sys.argv[1], sys.argv[2], dict(a.split("=", 1) for a in sys.argv[4:])).main(sys.argv[3]))
