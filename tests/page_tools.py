"""What the tests of the page share: a browser, or the reason why there is none."""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from export.page import runtime
from export.page.build import make_server

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
)
SOFTWARE_GPU = ("--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader")
# How many images the worker has at once, and how many it got.
COUNT_MESSAGES = """
    window.traffic = { now: 0, most: 0, sent: 0 };
    window.Worker = class extends Worker {
        constructor(...options) {
            super(...options);
            this.addEventListener("message", () => traffic.now--); // before the page hears of it
        }
        postMessage(...message) {
            traffic.sent++;
            traffic.most = Math.max(traffic.most, ++traffic.now);
            super.postMessage(...message);
        }
    };
"""


def chromium() -> str:
    """Where Chromium is; skips the test if there is none, or nothing to drive it with."""
    pytest.importorskip("playwright", reason="Playwright is not installed: pip install playwright")
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("no Chromium on the PATH; on Debian: apt-get install chromium chromium-driver")
    return path


def need_runtime() -> None:
    """Skip the test if onnxruntime-web is neither in the cache nor to be had from npm."""
    try:
        runtime.find_archive()
    except (FileNotFoundError, ConnectionError) as error:
        pytest.skip(f"no onnxruntime-web: {error}")


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a web server for the folder."""
    with make_server(folder) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


class Visit:
    """A page in a browser; collects what it asks for and what it complains about."""

    def __init__(self, context, url: str):
        self.url = url
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page = context.new_page()
        self.page.add_init_script(COUNT_MESSAGES)
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("requestfailed", lambda r: self.complaints.append(f"{r.url}: {r.failure}"))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", lambda message: self.complaints.append(message.text))

    def open(self) -> Visit:
        self.page.goto(self.url)
        return self.answered(0)

    def js(self, expression: str, argument=None):
        """Evaluate with `m`, the module of the page, and `a`, the argument."""
        code = f"a => import('./page.js').then(m => {expression})"
        return self.page.evaluate(code, argument)

    def until(self, expression: str, argument=None, *, seconds: float = 120) -> Visit:
        """Wait until an expression, as `js` takes it, is true.

        Playwright's own `wait_for_function` needs `eval`, which the page forbids.
        """
        end = time.monotonic() + seconds
        while not self.js(expression, argument):
            assert time.monotonic() < end, f"never true: {expression}, {self.complaints}"
            time.sleep(0.05)
        return self

    def answered(self, step: float) -> Visit:
        """Wait until the size is shown with its answers."""
        return self.until(
            "m.state.step === a && m.state.answers.has(a) && !m.state.busy", argument=step
        )

    def family(self, title: str) -> Visit:
        self.page.get_by_text(title).click()
        return self.until("m.state.family.title === a", title).answered(0)

    def sweep(self) -> Visit:
        self.page.click("#play")
        return self.until("!m.state.playing")

    def slide(self, step: float) -> Visit:
        self.move(step)
        return self.answered(step)

    def move(self, *steps: float) -> None:
        """The slider's events, all at once."""
        code = """steps => steps.forEach((step) => {
            const slider = document.getElementById('size');
            slider.value = step;
            slider.dispatchEvent(new Event('input'));
        })"""
        self.page.evaluate(code, list(steps))


@contextlib.contextmanager
def browser(playwright, *, gpu: Sequence[str] = ("--disable-gpu",)) -> Iterator:
    """Chromium; `gpu` are flags."""
    program = playwright.chromium.launch(executable_path=chromium(), args=[*FLAGS, *gpu])
    try:
        yield program
    finally:
        program.close()


@contextlib.contextmanager
def visiting(program, url: str, **options) -> Iterator[Visit]:
    """A visit with a new profile; options are those of Playwright's contexts."""
    context = program.new_context(**options)
    try:
        yield Visit(context, url)
    finally:
        context.close()
