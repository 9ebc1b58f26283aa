"""The page in a real browser, on a loopback server; and what it is built of, without one."""

import base64
import contextlib
import io
import json
import re
import tarfile
import urllib.request

import keras
import numpy as np
import onnx
import pytest
from export_tools import ROOT
from page_tools import SOFTWARE_GPU, browser, chromium, need_runtime, served, visiting
from PIL import Image
from zoo_tools import write_tiny

from export.__main__ import main
from export.page import DEFAULT_NAMES, choose, runtime
from export.page.build import STATIC
from gdn_keras import zoo
from gdn_keras.datasets import load_samples
from gdn_keras.datasets.rescaled import SIZE_FACTORS
from gdn_keras.datasets.resize import resample_matrix, resize_planes
from gdn_keras.explain import scale_shares

SIZES = {"light": (1200, 800), "dark": (1200, 800), "narrow": (390, 844)}
OUT = ROOT / "out"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The page of the default networks."""
    chromium()
    need_runtime()
    path = tmp_path_factory.mktemp("page") / "page"
    assert main(["page", "-o", str(path)]) == 0
    return path


@pytest.fixture(scope="module")
def url(folder):
    with served(folder) as address:
        yield address


@pytest.fixture(scope="module")
def playwright():
    chromium()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        yield playwright


@pytest.fixture(scope="module")
def program(playwright):
    with browser(playwright) as program:
        yield program


@contextlib.contextmanager
def blameless_visit(program, url):
    """Opened, with its first answer; at the end: no complaints, and no request to elsewhere."""
    with visiting(program, url) as visit:
        yield visit.open()
        assert visit.complaints == []
        elsewhere = [r for r in visit.requests if not r.startswith((url, "data:", "blob:"))]
        assert elsewhere == [] and f"{url}ort/ort.wasm" in visit.requests


@pytest.fixture
def visit(program, url):
    with blameless_visit(program, url) as visit:
        yield visit


@pytest.fixture(scope="module")
def unchanged(program, url):
    """One visit for all tests that only call the functions of the page."""
    with blameless_visit(program, url) as visit:
        yield visit


# === Numbers ===


@pytest.mark.heavy
def test_images_are_those_of_the_data_sets(visit):
    """Within one grey level, at every size, for samples and for pictures of other shapes."""
    for index, name in enumerate(("rescaled_fashion_mnist", "rescaled_cifar10")):
        if index:
            visit.family("Photos")
        for factor in SIZE_FACTORS:
            found = visit.js(
                """btoa(m.state.family.images.slice(0, 20).map((image) =>
                    String.fromCharCode(...m.rescale(image, a, m.state.family).data)).join(""))""",
                factor,
            )
            samples = load_samples(name, size_factor=factor)
            images = samples.images[np.argsort(samples.labels, kind="stable")][:20]
            assert_grey_levels(found, images)


@pytest.mark.heavy
@pytest.mark.parametrize("size", [(60, 41), (3, 200), (28, 28), (1, 1)])
def test_pictures_are_fitted_as_resize_does_it(unchanged, size):
    pixels = np.random.default_rng(0).integers(0, 256, (*size, 3), dtype=np.uint8)
    scale = 28 / max(size)
    height, width = (max(1, round(scale * n)) for n in size)
    found = unchanged.js(
        """(() => {
            const picture = { height: a.size[0], width: a.size[1], colours: 3,
                              data: Uint8ClampedArray.from(a.pixels) };
            const image = m.fit(picture, m.state.family);
            return [image.height, image.width, btoa(String.fromCharCode(...image.data))];
        })()""",
        {"size": size, "pixels": pixels.ravel().tolist()},
    )
    grey = np.asarray(Image.fromarray(pixels).convert("L"))[None, ..., None]
    rows, columns = (
        resample_matrix(n, (np.arange(m) - (m - 1) / 2) / scale + (n - 1) / 2, scale=scale)
        for n, m in zip(size, (height, width), strict=True)
    )
    assert found[:2] == [height, width]
    assert_grey_levels(found[2], resize_planes(grey, rows, columns))


def assert_grey_levels(found, images):
    found = np.frombuffer(base64.b64decode(found), np.uint8).astype(int)
    np.testing.assert_allclose(found, images.ravel(), rtol=0, atol=1)


@pytest.mark.heavy
def test_logits_are_those_of_keras(visit):
    """Ten samples at three sizes, for every network of the page."""
    families = visit.js("m.state.page.families")
    names = {name for family in families for name in (n["name"] for n in family["networks"])}
    assert names == set(DEFAULT_NAMES)
    for index, family in enumerate(families):
        if index:
            visit.family(family["title"])
        for k, network in enumerate(family["networks"]):
            model = zoo.load(network["name"])
            both = keras.Model(model.input, [model.output, model.scale_logits_model().output])
            for factor in (0.5, 1.0, 2.0):
                found = visit.js(
                    """(async () => {
                        const { family } = m.state;
                        const results = [];
                        for (let i = 0; i < 100; i += 10) {
                            const pixels = m.rescale(family.images[i], a.factor, family);
                            const answer = await m.run(family.networks[a.k], pixels);
                            results.push([pixels.data, answer.logits, answer.scaleLogits]
                                .map((values) => Array.from(values)));
                        }
                        return results;
                    })()""",
                    {"factor": factor, "k": k},
                )
                columns = zip(*found, strict=True)
                pixels, logits, scales = (np.array(values, "float32") for values in columns)
                images = pixels.reshape(10, *model.input_shape[1:])
                for mine, expected in zip((logits, scales), both(images), strict=True):
                    expected = keras.ops.convert_to_numpy(expected).reshape(10, -1)
                    np.testing.assert_allclose(mine, expected, rtol=0, atol=1e-3)


@pytest.mark.heavy
def test_shares_are_those_of_explain(unchanged):
    outputs = np.random.default_rng(0).normal(size=(4, 7))
    outputs[1] = -1.0  # nobody contributes more
    for pooling in ("max", "average", "logsumexp"):
        found = unchanged.js("a[0].map((x) => m.scaleShares(x, a[1]))", [outputs.tolist(), pooling])
        classes = np.zeros(4, int)
        expected = scale_shares(outputs[..., None], pooling=pooling, classes=classes)
        np.testing.assert_allclose(found, expected, atol=1e-12)


# === What a visitor does ===


def picture(visit):
    return visit.page.evaluate("document.getElementById('picture').toDataURL()")


def shares(visit):
    return visit.page.locator("#channels b").all_inner_texts()


@pytest.mark.heavy
def test_the_slider_changes_the_picture_and_the_bars(visit):
    page = visit.page
    before = picture(visit), shares(visit), page.inner_text("#decides")
    visit.slide(4)
    assert all(a != b for a, b in zip(before, (picture(visit), shares(visit)), strict=False))
    assert page.inner_text("#one .answer") != page.inner_text("#several .answer")
    assert "wrong" in page.inner_text("#one") and "right" in page.inner_text("#several")
    assert page.inner_text("#size-text") == "× 2.00"
    slider = page.get_by_role("slider", name="Size")
    assert slider.get_attribute("aria-valuetext") == "2 times the size"
    slider.press("Home")
    visit.answered(-4)
    slider.press("ArrowRight")
    visit.answered(-3.875)
    slider.fill("0")
    assert (picture(visit), shares(visit.answered(0))) == before[:2]


@pytest.mark.heavy
def test_never_two_at_once_and_the_last_wish_wins(visit):
    sent = visit.page.evaluate("traffic.sent")
    visit.move(*np.arange(-4, 4.125, 0.125).tolist())
    visit.answered(4)
    traffic = visit.page.evaluate("traffic")
    assert traffic["most"] == 1
    assert traffic["sent"] - sent <= 4  # the first wish and the last one, two networks each
    assert visit.js("m.state.answers.size") <= 3


@pytest.mark.heavy
def test_a_sweep_draws_the_curve_and_can_be_stopped(visit):
    page = visit.page
    assert "Play draws the curve" in page.inner_html("#curve")
    visit.sweep().answered(0)
    assert visit.js("[...m.state.answers.keys()].sort((x, y) => x - y)") == [
        n / 2 for n in range(-8, 9)
    ]
    assert "Play draws" not in page.inner_html("#curve")
    page.get_by_text("Numbers").click()
    rows = page.locator("#numbers tr").all_inner_texts()
    assert len(rows) == 18 and rows[1].startswith("0.5\t")
    several = [float(row.split("\t")[2].strip(">% ")) for row in rows[1:]]
    single = [float(row.split("\t")[1].strip(">% ")) for row in rows[1:]]
    assert min(several) > 80 and min(single) < 20  # what the page is about
    page.click("#play")
    page.click("#play")
    assert page.inner_text("#play") == "▶ Play" and not visit.js("m.state.playing")


def png(colour, size=(50, 30)):
    content = io.BytesIO()
    Image.new("RGB", size, colour).save(content, "png")
    return content.getvalue()


@pytest.mark.heavy
def test_own_images_by_file_drop_and_paste(visit):
    page = visit.page
    file = {"name": "red.png", "mimeType": "image/png", "buffer": png("red")}
    page.set_input_files("#file", file)
    visit.until("m.state.own").answered(0)
    assert visit.js("[m.state.own, m.state.image.height, m.state.image.width]") == [True, 17, 28]
    assert visit.js("m.state.image.data[100]") == 76  # the grey of red
    page.select_option("#truth", label="bag")
    assert page.inner_text("#right-class") == "“bag”"
    for event, kind, target in (
        ("drop", "DragEvent", "dataTransfer"),
        ("paste", "ClipboardEvent", "clipboardData"),
    ):
        code = f"""content => {{
            const bytes = Uint8Array.from(atob(content), (c) => c.charCodeAt());
            const transfer = new DataTransfer();
            transfer.items.add(new File([bytes], "white.png", {{ type: "image/png" }}));
            const options = {{ {target}: transfer, bubbles: true, cancelable: true }};
            document.body.dispatchEvent(new {kind}("{event}", options));
        }}"""
        colour, grey = {"drop": ("white", 255), "paste": ("#808080", 128)}[event]
        page.evaluate(code, base64.b64encode(png(colour)).decode())
        visit.until("m.state.image.data[100] === a", grey).answered(0)


@pytest.mark.heavy
def test_doodles_and_the_camera(visit):
    page = visit.page
    page.get_by_role("button", name="Doodle").click()
    box = page.locator("#paper").bounding_box()
    page.mouse.move(box["x"] + 60, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 200, box["y"] + 200)
    page.mouse.up()
    page.get_by_role("button", name="Use it").click()
    visit.answered(0)
    image = np.array(visit.js("Array.from(m.state.image.data)")).reshape(28, 28)
    assert image[14, 14] > 150 and image[4, 24] == 0
    page.get_by_role("button", name="Camera").click()
    page.get_by_role("button", name="Take picture").click()
    visit.answered(0)
    assert visit.js("[m.state.own, m.state.image.height, m.state.image.width]") == [True, 28, 28]
    assert visit.page.locator("dialog[open]").count() == 0


@pytest.mark.heavy
def test_a_broken_image_gives_a_message_and_the_page_goes_on(visit):
    page = visit.page
    file = {"name": "broken.png", "mimeType": "image/png", "buffer": b"not a png"}
    page.set_input_files("#file", file)
    page.get_by_role("alert").wait_for()
    problem = page.inner_text("#problem")
    assert re.search(r"broken\.png .*Expected: PNG.*Received: image/png, 9 bytes", problem)
    visit.slide(2)
    page.locator("#samples button").first.click()
    visit.answered(2)
    assert not page.is_visible("#problem")


@pytest.mark.heavy
def test_a_missing_network_gives_a_message(program, folder, tmp_path):
    for file in (*STATIC, "page.json", "ort", "samples"):
        (tmp_path / file).symlink_to(folder / file)
    with served(tmp_path) as url, visiting(program, url) as visit:
        visit.page.goto(url)
        visit.page.get_by_role("alert").wait_for()
        problem = visit.page.inner_text("#problem")
        assert re.search(r"models/fashion_single_2jet\.onnx: .*HTTP 404", problem)


@pytest.mark.heavy
@pytest.mark.parametrize("look", SIZES)
def test_screenshots(program, url, look):
    """For people to look at, in out/; nothing may stick out sideways."""
    width, height = SIZES[look]
    scheme = "dark" if look == "dark" else "light"
    size = {"width": width, "height": height}
    with visiting(program, url, color_scheme=scheme, viewport=size) as visit:
        visit.open()
        if look == "dark":
            visit.family("Photos")
        visit.sweep().slide(4)
        visit.page.wait_for_timeout(300)  # bars move
        OUT.mkdir(exist_ok=True)
        visit.page.screenshot(path=OUT / f"page_{look}.png", full_page=True)
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
        unnamed = visit.page.locator("button:visible, input:visible, select:visible").evaluate_all(
            """all => all.filter((e) => !(e.ariaLabel || e.innerText || e.labels?.length))
                .map((e) => e.id)"""
        )
        assert unnamed == []


# === WebGPU ===


@pytest.fixture(scope="module")
def gpu_url(tmp_path_factory):
    """The page of two small networks, with the build for WebGPU."""
    chromium()
    need_runtime()
    zoo_folder = tmp_path_factory.mktemp("gpu")
    several = write_tiny(zoo_folder, "several", dataset="rescaled_fashion_mnist")
    one = write_tiny(zoo_folder, "one", dataset="rescaled_fashion_mnist", channel_sigmas=(1.0,))
    path = zoo_folder / "page"
    assert main(["page", str(one.path), str(several.path), "--webgpu", "-o", str(path)]) == 0
    with served(path) as address:
        yield address


def trials(visit):
    """What came of trying every network on the GPU after its first answer."""
    return visit.js(
        """(async () => {
            const { family, image } = m.state;
            const answers = family.networks.map((n) => m.run(n, m.rescale(image, 1, family)));
            return (await Promise.all(answers)).map((answer) => answer.trial);
        })()"""
    )


@pytest.mark.heavy
def test_networks_on_the_gpu_agree_with_wasm(playwright, gpu_url):
    """Chromium's GPU in software: slower, but it computes."""
    with browser(playwright, gpu=SOFTWARE_GPU) as gpu, visiting(gpu, gpu_url) as visit:
        visit.open()
        if not visit.js("navigator.gpu?.requestAdapter().then(Boolean) ?? false"):
            pytest.skip("this Chromium has no WebGPU adapter in software")
        for trial in trials(visit):
            assert trial["device"] == "webgpu" and "error" not in trial
            assert trial["deviation"] <= 1e-3 and trial["milliseconds"] > 0
        assert visit.complaints == []
        assert f"{gpu_url}ort/webgpu.wasm" in visit.requests


@pytest.mark.heavy
def test_without_a_gpu_its_build_is_not_loaded(program, gpu_url):
    with visiting(program, gpu_url) as visit:
        visit.open()
        assert trials(visit) == 2 * [{"device": "none"}]
        assert visit.complaints == []
        assert not any("webgpu" in request for request in visit.requests)


# === Without a browser ===


def cache_small_runtime(folder, patch):
    """Put an archive of the package into the cache, with other content; npm is not to be found."""
    cache = folder / "cache" / "gdn_keras"
    cache.mkdir(parents=True)
    path = cache / f"{runtime.PACKAGE}-{runtime.VERSION}.tgz"
    with tarfile.open(path, "w:gz") as archive:
        for name in runtime.FILES:
            entry = tarfile.TarInfo(name)
            entry.size = 4
            archive.addfile(entry, io.BytesIO(b"code"))
    patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    patch.setenv("PATH", str(folder))
    patch.setattr(runtime, "INTEGRITY", runtime.integrity(path))
    return path


@pytest.fixture
def small_runtime(tmp_path, monkeypatch):
    return cache_small_runtime(tmp_path, monkeypatch)


@pytest.fixture(scope="module")
def small_page(tmp_path_factory):
    """The page of two small networks. Tests leave it as it is."""
    path = tmp_path_factory.mktemp("small")
    several = write_tiny(path, "several", dataset="rescaled_fashion_mnist")
    one = write_tiny(path, "one", dataset="rescaled_fashion_mnist", channel_sigmas=(1.0,))
    with pytest.MonkeyPatch.context() as patch:
        cache_small_runtime(path, patch)
        assert main(["page", str(several.path), str(one.path), "-o", str(path / "page")]) == 0
    return path / "page"


def test_the_folder_has_networks_runtime_samples_and_licences(small_page):
    files = small_page.rglob("*")
    assert {file.relative_to(small_page).as_posix() for file in files if file.is_file()} == {
        *STATIC,
        "page.json",
        "README.md",
        "models/one.onnx",
        "models/several.onnx",
        "ort/ort.js",
        "ort/ort.wasm",
        "ort/LICENSE",
        "samples/fashion_mnist.png",
        "samples/LICENCES.md",
    }
    assert "MIT License" in (small_page / "ort" / "LICENSE").read_text()


def test_the_page_knows_its_networks_and_how_images_are_shown(small_page):
    (family,) = json.loads((small_page / "page.json").read_text())["families"]
    assert [network["name"] for network in family["networks"]] == ["several", "one"]
    assert (family["canvas"], family["side"], family["surroundings"]) == (72, 28, "black")


def test_networks_of_the_page_give_logits_of_every_scale(small_page):
    outputs = {output.name for output in onnx.load(small_page / "models/one.onnx").graph.output}
    assert {"logits", "scale_logits"} <= outputs


def test_samples_of_the_page_are_those_of_the_data_set(small_page):
    (family,) = json.loads((small_page / "page.json").read_text())["families"]
    sheet = np.asarray(Image.open(small_page / "samples/fashion_mnist.png"))
    samples = load_samples("fashion_mnist")
    expected = samples.images[samples.labels == 3][4, ..., 0]
    np.testing.assert_array_equal(sheet[3 * 28 : 4 * 28, 4 * 28 : 5 * 28], expected)
    assert family["samples"]["labels"][34] == 3


@pytest.mark.parametrize("file, kind", [("", "text/html"), ("page.js", "text/javascript")])
def test_files_are_served_with_their_type(small_page, file, kind):
    with served(small_page) as url, urllib.request.urlopen(url + file) as answer:
        assert answer.headers["Content-Type"].startswith(kind)


def test_a_folder_of_other_files_is_not_replaced(tmp_path, capsys):
    network = write_tiny(tmp_path, "net", dataset="rescaled_fashion_mnist")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "index.html").write_text("years of work")
    assert main(["page", str(network.path), "-o", str(tmp_path / "mine")]) == 1
    assert f"{tmp_path / 'mine'} is a folder of other files" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["index.html"]


def test_the_page_names_no_other_host():
    allowed = ("https://arxiv.org/abs/2409.11140", "http://www.w3.org/2000/svg")  # link, namespace
    for name in STATIC:
        text = (ROOT / "export" / "page" / name).read_text(encoding="utf-8")
        assert set(re.findall(r"\w+://[^\s\"'<>)]+", text)) <= set(allowed), name


@pytest.mark.parametrize(
    "names, message",
    [
        (
            ["stir_emoji_mid_drop"],
            r"`names` .*'rescaled_cifar10', 'rescaled_fashion.*Received: stir_emoji_mid_drop",
        ),
        (["fashion_avg_2jet"] * 2, r"different.*twice: \['fashion_avg_2jet'\]"),
    ],
)
def test_networks_that_the_page_cannot_show(names, message):
    with pytest.raises(ValueError, match=message):
        choose(names)


def test_a_runtime_with_another_hash_is_not_kept(small_runtime, tmp_path, monkeypatch):
    small_runtime.write_bytes(b"damaged")  # so that it is fetched again

    def npm_pack(folder):
        (folder / "x.tgz").write_bytes(b"something else")
        return folder / "x.tgz"

    monkeypatch.setattr(runtime, "_npm_pack", npm_pack)
    with pytest.raises(ValueError, match="sha512-.*Received: sha512-"):
        runtime.find_archive()
    assert small_runtime.read_bytes() == b"damaged"
    assert list(small_runtime.parent.iterdir()) == [small_runtime]


def test_npm_is_missing_or_fails(small_runtime, tmp_path):
    small_runtime.unlink()
    with pytest.raises(FileNotFoundError, match="Expected: `npm`"):
        runtime.find_archive()
    npm = tmp_path / "npm"
    npm.write_text("#!/bin/sh\necho no connection >&2\nexit 1\n")
    npm.chmod(0o755)
    with pytest.raises(ConnectionError, match="Received: no connection"):
        runtime.find_archive()
