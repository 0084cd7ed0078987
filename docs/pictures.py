# SPDX-License-Identifier: Apache-2.0
"""Takes the README's pictures of the files that scripts/demo leaves in the folder "demo", in a headless Chromium.

usage: python3 docs/pictures.py [DEMO [OUT]]

Those of the Firefox Profiler need a build of its front-end, which no package registry has: PYEBPF_FIREFOX_PROFILER is
the folder with its index.html, PYEBPF_BUILD that of the build of pyebpf which serves the capture to it."""
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/readers"))
import browser  # noqa: E402 pylint: disable=wrong-import-position
import chrome  # noqa: E402 pylint: disable=wrong-import-position
import firefox_page  # noqa: E402 pylint: disable=wrong-import-position


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


def zoom(page, start_ms, end_ms):
    page.run("dispatch(actions.commitRange(%f, %f)), 0" % (start_ms, end_ms))


def firefox(demo, out):
    with firefox_page.shown(demo / "trace.pyebpf", 1240, 560) as (page, _):
        firefox_page.choose_thread(page, "worker-1")
        firefox_page.tab(page, "calltree")
        page.run("dispatch(actions.changeSidebarOpenState('calltree', false)), 0")
        rest(page, out / "firefox-tree.png")
        firefox_page.tab(page, "stack-chart")
        # the middle one of the requests that took longest, and what is around it
        start, end = page.run("""(() => {
            const handle = selectors.selectedThread.getStackTimingByDepth(getState())[4];
            const found = Array.from(handle.start, (start, i) => [start, handle.end[i]]);
            found.sort((a, b) => (b[1] - b[0]) - (a[1] - a[0]));
            return found[Math.floor(Math.min(found.length, 20) / 2)];
        })()""")
        zoom(page, start - 10, end + 10)
        for _ in range(3):
            page.call("Input.dispatchMouseEvent", type="mouseWheel", x=680, y=400, deltaX=0, deltaY=-60, modifiers=2)
            page.run("new Promise(requestAnimationFrame)")
        page.move(5, 555)
        rest(page, out / "firefox-chart.png")


def main():
    demo = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "demo").resolve()
    out = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else ROOT / "docs/pictures").resolve()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, chrome.Browser(folder, browser.FLAGS) as program:
        html(program, demo, out)
        svg(program, demo, out)
        source(program, demo, out)
    why = firefox_page.missing()
    if why:
        print("no pictures of the Firefox Profiler: " + why)
    else:
        firefox(demo, out)


if __name__ == "__main__":
    main()
