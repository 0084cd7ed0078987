# SPDX-License-Identifier: Apache-2.0
"""chdb, a ClickHouse of today in a process, behind the part of ClickHouse's HTTP interface that pyebpf speaks: the statements and the
rows reach it as they were sent. It is not ClickHouse's own server: logins and shards are not there. What a setting is called it knows.

    chdb_server.py FOLDER SCRIPT.sql    prints its port"""
import gzip
import http.server
import pathlib
import re
import sys
import urllib.parse

from chdb import session  # pylint: disable=import-error

OWN = {"query", "database", "default_format", "wait_end_of_query"}  # of the interface, not settings


class Engine:
    def __init__(self, folder, script):
        self.folder = folder
        self.session = session.Session(str(folder / "data"))
        for statement in re.sub(r"--.*", "", script.read_text()).split(";"):
            if statement.strip():
                self.session.query(statement)
        self.known = set(self.session.query("SELECT name FROM system.settings", "TSV").bytes().decode().split())

    def insert(self, statement, rows, settings):
        file = self.folder / "rows"
        file.write_bytes(rows)
        head, form = statement.rsplit(" FORMAT ", 1)
        chosen = ", ".join("%s = '%s'" % item for item in settings.items())
        self.session.query("%s FROM INFILE '%s' %s FORMAT %s" % (head, file, "SETTINGS " + chosen if chosen else "", form))
        return b""

    def answer(self, asked, body):
        """(status, body)"""
        settings = {name: value for name, value in asked.items() if name not in OWN}
        for name in settings:
            if name not in self.known:
                return 404, b"Code: 115. DB::Exception: Unknown setting '%s'. (UNKNOWN_SETTING)" % name.encode()
        try:
            if "query" in asked:
                return 200, self.insert(asked["query"], body, settings)
            return 200, self.session.query(body.decode(), asked.get("default_format", "TSV")).bytes()
        except Exception as error:  # pylint: disable=broad-except
            return 500, str(error).encode()


def serve(engine):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            asked = {name: values[0] for name, values in urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query).items()}
            status, said = engine.answer(asked, body)
            self.send_response(status)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *args):
            pass
    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    serve(Engine(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])))
