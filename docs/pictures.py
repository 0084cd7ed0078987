# SPDX-License-Identifier: Apache-2.0
"""Takes the README's pictures of the files that scripts/demo leaves in the folder "demo", in a headless Chromium.

usage: python3 docs/pictures.py [DEMO [OUT]]"""
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/readers"))
import browser  # noqa: E402 pylint: disable=wrong-import-position
import chrome  # noqa: E402 pylint: disable=wrong-import-position


def opened(program, path, height, ready="true", width=1100):
    page = program.open(path.as_uri())
    page.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
    page.until(ready, browser.DEADLINE_S)
    return page


def rest(page, path):
    """A picture, once the page draws nothing new."""
    last = None
    while True:
        page.run("new Promise(done => setTimeout(done, 300))")
        page.picture(path)
        if path.read_bytes() == last:
            print("%s: %d kB" % (path, len(last) // 1000))
            return
        last = path.read_bytes()


def html(program, demo, out):
    page = opened(program, demo / "trace.html", 460, "document.body.innerText.includes('Sandwich')")
    for _ in range(2):  # ten times each
        page.call("Input.dispatchMouseEvent", type="mouseWheel", x=430, y=220, deltaX=0, deltaY=-120, modifiers=2)
        page.run("new Promise(requestAnimationFrame)")
    page.move(5, 450)
    rest(page, out / "html.png")
    page.press("3")
    page.until("[...document.querySelectorAll('tr')].some(r => r.innerText.includes('key_of'))")
    page.run("[...document.querySelectorAll('tr')].find(r => r.innerText.includes('key_of')).click(), 0")
    page.until("/Callers[^]*Callees/.test(document.body.innerText)")
    rest(page, out / "sandwich.png")


def svg(program, demo, out):
    rest(opened(program, demo / "trace.svg", 330), out / "svg.png")


def source(program, demo, out):
    page = opened(program, demo / "record.source.html", 430)
    page.run("[...document.querySelectorAll('details')].filter(d => /^audit/.test(d.textContent))[0]"
             ".scrollIntoView()")
    page.run("document.querySelectorAll('details').forEach(d => { d.open = /^audit:/.test(d.textContent) })")
    rest(page, out / "source.png")


def main():
    demo = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "demo").resolve()
    out = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else ROOT / "docs/pictures").resolve()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, chrome.Browser(folder, browser.FLAGS) as program:
        html(program, demo, out)
        svg(program, demo, out)
        source(program, demo, out)


if __name__ == "__main__":
    main()
