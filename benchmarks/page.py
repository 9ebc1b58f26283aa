"""How long a visitor of the page waits: the first answer, and every image after it.

The page of `python -m export page` in headless Chromium, on a loopback server: WebAssembly with
SIMD, one thread. The time of an image is what the page's worker measures. Besides the networks as
they are published, it runs them at reach 1.25, as float and as int8.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.report import print_table, record

REACH = 1.25
VISITS = 5
IMAGES = 5  # of each network, at each size
SIZES = (0.5, 1.0, 2.0)
TARGETS = {"first answer s": 3.0, "fashion_avg_2jet ms": 150.0}
ANSWERED = "() => import('./page.js').then(m => m.state.answers.has(0) && !m.state.busy)"
TIME_IMAGES = """a => import('./page.js').then(async (m) => {
    const times = [];
    for (let i = 0; i <= a.images; i++) for (const factor of a.sizes) {
        const pixels = m.rescale(m.state.family.images[10 * i], factor, m.state.family);
        const answer = await m.run({ file: a.file }, pixels);
        if (i > 0) times.push(answer.milliseconds);  // the first round loads and warms up
    }
    return times;
})"""


def write_variants(folder: Path, names: Sequence[str]) -> dict[tuple[str, str], str]:
    """The files to time, by network and kind; those that the page does not have are added."""
    from export.files import write_onnx
    from export.quantisation.quantise import quantise_file
    from gdn_keras import zoo
    from gdn_keras.datasets import load_samples

    files = {}
    for name in names:
        info = zoo.info(name)
        published = folder / "models" / f"{info.name}.onnx"
        wide, small = (published.with_stem(f"{info.name}-{kind}") for kind in ("reach", "int8"))
        write_onnx(zoo.load(name, reach=REACH), wide, info=info, with_scales=True)
        quantise_file(wide, small, load_samples(info.dataset).images.astype("float32"))
        kinds = {"published": published, f"reach {REACH}": wide, f"reach {REACH}, int8": small}
        files |= {(info.name, kind): f"models/{path.name}" for kind, path in kinds.items()}
    return files


def run(*, names: Sequence[str] | None = None, visits: int = VISITS, images: int = IMAGES) -> dict:
    """Median seconds until the first answer, and one row for each file."""
    from export.page import DEFAULT_NAMES, choose, space
    from export.page.build import make_server

    names = names or DEFAULT_NAMES
    infos = choose(names)
    datasets = list(dict.fromkeys(info.dataset for info in infos))
    families = {info.name: datasets.index(info.dataset) for info in infos}
    with tempfile.TemporaryDirectory() as temporary:
        folder = space.build(names, infos, Path(temporary, "page"))
        files = write_variants(folder, names)
        with make_server(folder) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            address = f"http://127.0.0.1:{server.server_port}/"
            result = _visit(address, files, families, visits=visits, images=images)
            server.shutdown()
        for row in result["rows"]:
            row["MB"] = (folder / files[row["network"], row["file"]]).stat().st_size / 1e6
    return result


def _visit(address: str, files, families, *, visits: int, images: int) -> dict:
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium")
    if path is None:
        raise FileNotFoundError(
            "The page is timed in Chromium. Expected: `chromium` on the PATH (on Debian: apt-get "
            "install chromium). Received: none."
        )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=["--headless", "--no-sandbox", "--disable-gpu"]
        )
        first = []
        for _ in range(visits):
            page = browser.new_page()
            start = time.perf_counter()
            page.goto(address)
            _wait_for(page, ANSWERED)
            first.append(time.perf_counter() - start)
            page.close()
        rows = []
        page = browser.new_page()
        page.goto(address)
        _wait_for(page, ANSWERED)
        for (name, kind), file in sorted(files.items(), key=lambda item: families[item[0][0]]):
            _show_family(page, families[name])
            times = page.evaluate(TIME_IMAGES, {"file": file, "images": images, "sizes": SIZES})
            rows.append({"network": name, "file": kind, "ms per image": statistics.median(times)})
        version = browser.version
        browser.close()
    return {"browser": version, "first answer s": statistics.median(first), "rows": rows}


def _show_family(page, number: int) -> None:
    titles = page.evaluate("() => import('./page.js').then(m => m.state.page.families)")
    title = titles[number]["title"]
    shown = "t => import('./page.js').then(m => m.state.family.title === t)"
    if not page.evaluate(shown, title):
        page.get_by_text(title).click()
        _wait_for(page, shown, title)
        _wait_for(page, ANSWERED)


def _wait_for(page, expression: str, argument=None) -> None:
    # Playwright's own `wait_for_function` needs `eval`, which the page forbids
    end = time.monotonic() + 120
    while not page.evaluate(expression, argument):
        if time.monotonic() > end:
            raise TimeoutError(f"The page did not answer within two minutes: {expression}")
        time.sleep(0.01)


def main() -> None:
    result = run()
    rows = result["rows"]
    print_table(list(rows[0]), [list(row.values()) for row in rows])
    print(f"first answer: {result['first answer s']:.2f} s, Chromium {result['browser']}")
    print(f"targets: {', '.join(f'{name} {value:g}' for name, value in TARGETS.items())}")
    record("page", result)


if __name__ == "__main__":
    main()
