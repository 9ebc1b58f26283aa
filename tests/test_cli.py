"""python -m gdn_keras …, as users type it; in this process, except where a process is the point."""

import json
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from dataset_files import write_fashion
from helpers import small_config
from PIL import Image
from zoo_tools import predict, write_tiny

from gdn_keras import build_model, zoo
from gdn_keras.__main__ import main
from gdn_keras.classify import classify, draw, read_image
from gdn_keras.datasets import load_arrays, load_samples
from gdn_keras.utils.image_files import MAX_PIXELS
from gdn_keras.zoo import registry

CIFAR = "rescaled_cifar10"


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("zoo")
    write_tiny(root, "grey", dataset="rescaled_fashion_mnist")
    write_tiny(root, "colour", dataset=CIFAR, scale_pooling="max")
    return root


@pytest.fixture(autouse=True)
def alone(root, monkeypatch, tmp_path):
    """Only the two small networks are there; the current folder is an empty one."""
    monkeypatch.setenv("GDN_KERAS_ZOO", str(root))
    monkeypatch.setattr(registry, "_PACKAGE", tmp_path / "gdn_keras")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def photo(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (90, 120, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    return "photo.png"


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


# === list, info, download ===


def test_list_has_a_line_per_network(capsys):
    code, out, _ = run(capsys, "list")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == ["name", "colour", "grey"]
    assert "54.00%" in out


def test_list_takes_a_pattern_and_properties(capsys):
    code, out, _ = run(capsys, "list", "c*", "--scale-pooling", "max", "--json")
    assert code == 0 and [info["name"] for info in json.loads(out)] == ["colour"]
    with pytest.warns(FutureWarning, match="--pooling .*--scale-pooling"):
        assert run(capsys, "list", "c*", "--pooling", "max", "--json") == (0, out, "")


def test_an_empty_list_is_reported(capsys):
    code, out, err = run(capsys, "list", "--jet-order", "3")
    assert (code, out) == (0, "") and "no networks found" in err


def test_info(capsys, root):
    code, out, _ = run(capsys, "info", "grey")
    assert code == 0 and out.startswith("grey\n====\n") and "trouser" in out
    code, out, _ = run(capsys, "info", root / "grey", "--json")
    assert code == 0 and zoo.ModelInfo.from_dict(json.loads(out)) == zoo.info("grey")


@pytest.mark.parametrize("command", ["info", "download", "evaluate"])
def test_unknown_names_get_the_nearest(capsys, command):
    code, out, err = run(capsys, command, "gray")
    assert (code, out) == (1, "")
    assert re.match("error: .*'gray'.*'grey'", err)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nothing"],
        ["info"],
        ["predict", "grey"],
        ["list", "--jet-order", "5"],
        ["predict", "grey", "x.png", "--top", "0"],
        ["predict", "grey", "x.png", "--fit", "squeeze"],
    ],
)
def test_wrong_usage_is_exit_code_2(capsys, arguments):
    with pytest.raises(SystemExit) as error:
        main(arguments)
    assert error.value.code == 2
    assert "usage: python -m gdn_keras" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["a", "0", "1.5", "-2"])
def test_a_count_that_is_none(capsys, text):
    with pytest.raises(SystemExit):
        main(["predict", "grey", "x.png", f"--top={text}"])
    assert f"--top: must be a whole number >= 1, not {text}" in capsys.readouterr().err


@pytest.mark.parametrize("seed", ["-1", "x", str(2**32)])
def test_a_seed_that_is_none(capsys, seed):
    with pytest.raises(SystemExit):
        main(["train", "photos", "-o", "mine", f"--seed={seed}"])
    assert f"--seed: must be a whole number from 0 to 4294967295, not {seed}" in (
        capsys.readouterr().err
    )


def test_download_of_what_is_here(capsys, root):
    assert run(capsys, "download", "grey")[:2] == (0, f"{root / 'grey'}\n")


@pytest.mark.heavy
def test_a_process_has_the_right_exit_codes_and_says_nothing_else(root, photo):
    """Once for real: stdout is clean JSON, and on stderr are our errors, not TensorFlow's log."""
    environment = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
    environment |= {"GDN_KERAS_ZOO": str(root), "KERAS_BACKEND": "tensorflow"}

    def start(*arguments):
        command = [sys.executable, "-m", "gdn_keras", *arguments]
        pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        return subprocess.Popen(command, env=environment, text=True, **pipes)

    good, wrong = start("predict", "colour", photo, "--json"), start("info", "gray")
    out, err = good.communicate(timeout=120)
    assert (good.returncode, err) == (0, "") and json.loads(out)[0]["file"] == photo
    out, err = wrong.communicate(timeout=120)
    assert (wrong.returncode, out) == (1, "")
    assert err.startswith("error: Unknown model 'gray'") and err.count("\n") == 1
    assert "`gdn-keras list`" in err and "list_models" not in err


# === predict ===


def test_predict_says_what_it_saw_and_what_decided(capsys, photo):
    code, out, err = run(capsys, "predict", "colour", photo)
    assert (code, err) == (0, "")
    first, *classes, last = out.splitlines()
    assert re.fullmatch(r"photo\.png  \(.*120x90 to 32x24, .*64x64 mirrored\)", first)
    shares = [float(line.split("%")[0]) for line in classes]
    assert len(classes) == 3 and shares == sorted(shares, reverse=True)
    info = zoo.info("colour").config
    channel = int(re.fullmatch(r"  sigma .*: 100% .*\(scale channel (\d)\)", last)[1])
    assert f"sigma {info.channel_sigmas[channel]:.3g}:" in last
    _, out, _ = run(capsys, "predict", "colour", photo, "--json")
    assert json.loads(out)[0]["scale_channel"] == channel


def test_predict_gives_the_networks_own_answer(capsys, tmp_path):
    samples = load_samples("cifar10")
    for n in range(3):
        Image.fromarray(samples.images[n]).save(tmp_path / f"{n}.png")
    code, out, _ = run(capsys, "predict", "colour", *(f"{n}.png" for n in range(3)), "--json")
    answers = json.loads(out)
    images = load_samples(CIFAR).images[:3]  # a 32x32 image is fitted as the data set does it
    logits = predict(zoo.load("colour"), images)
    assert code == 0 and len(answers) == 3
    for answer, row in zip(answers, logits, strict=True):
        assert [c["index"] for c in answer["classes"]] == np.argsort(-row)[:3].tolist()
        probability = np.exp(row - row.max()) / np.exp(row - row.max()).sum()
        assert answer["classes"][0]["probability"] == pytest.approx(probability.max(), rel=1e-4)
        assert sum(answer["scale_shares"]) == pytest.approx(1)
        assert answer["sigma"] == zoo.info("colour").config.channel_sigmas[answer["scale_channel"]]


def test_the_sigma_of_a_prediction_is_the_learned_one():
    model = build_model(small_config(learned_sigmas=True, channel_sigmas=(1.0,)))
    model.get_layer("jet_1").ratio.assign(1.5)
    (prediction,) = classify(model, np.zeros((1, 13, 12, 2), np.uint8))
    assert prediction.sigma == pytest.approx(1.5)


def test_predict_writes_the_figure(capsys, photo):
    code, _, err = run(capsys, "predict", "colour", photo, "--figure", "sub/answer.png")
    assert code == 0 and "figure: sub/answer.png" in err
    with Image.open("sub/answer.png") as figure:
        assert figure.width > 500 and figure.height > 100


def test_the_figure_shows_picture_bars_and_map(photo):
    model, info = zoo.load("colour"), zoo.info("colour")
    image = read_image(photo, config=info.config, dataset=info.dataset)
    prediction = classify(model, image.pixels[None])[0]
    picture, bars, response = draw(model, [image], [prediction]).axes[:3]
    assert prediction.classes[0][1] in picture.get_title()
    heights = [patch.get_height() for patch in bars.patches]
    np.testing.assert_allclose(heights, 100 * np.array(prediction.shares))
    assert response.images[0].get_array().shape == (64, 64)


@pytest.mark.parametrize(
    "fit, how",
    [
        ("trained", "resized from 120x90 to 32x24, surroundings up to 64x64 mirrored"),
        ("contain", "resized from 120x90 to 64x48, surroundings up to 64x64 mirrored"),
        ("cover", "resized from 120x90 to 85x64, cut to 64x64"),
        ("original", "cut to 64x64"),
    ],
)
def test_fits(photo, fit, how):
    image = read_image(photo, config=zoo.info("colour").config, dataset=CIFAR, fit=fit)
    assert image.how == how and image.pixels.shape == (64, 64, 3)
    if fit == "original":
        with Image.open(photo) as original:
            np.testing.assert_array_equal(image.pixels, np.asarray(original)[13:77, 28:92])


def test_what_is_left_free_is_filled_as_in_training(tmp_path):
    Image.new("L", (28, 28), 200).save("object.png")
    grey = read_image(
        "object.png", config=zoo.info("grey").config, dataset="rescaled_fashion_mnist"
    )
    assert (grey.pixels == 200).sum() == 28 * 28 and (grey.pixels[22:50, 22:50] == 200).all()
    assert grey.how == "surroundings up to 72x72 black"


@pytest.mark.parametrize(
    "dataset, train_sizes, side, surroundings",
    [
        ("stir_emoji", "small", 24, "black"),
        ("stir_emoji", "mid", 40, "black"),
        ("stir_gtsrb", "large", 56, "mirrored"),
        ("stir_sign", None, 40, "mirrored"),
    ],
)
def test_stir_objects_get_the_middle_of_the_trained_sizes(
    photo, dataset, train_sizes, side, surroundings
):
    config = zoo.info("colour").config
    image = read_image(photo, config=config, dataset=dataset, train_sizes=train_sizes)
    short = round(side * 90 / 120)
    surrounded = f"surroundings up to 64x64 {surroundings}"
    assert image.how == f"resized from 120x90 to {side}x{short}, {surrounded}"


def test_stir_sizes_come_from_the_recipe(capsys, root, photo, tmp_path):
    shutil.copytree(root / "colour", tmp_path / "signs")
    for name, changes in {
        "metrics.json": {"dataset": "stir_sign"},
        "recipe.json": {"train_sizes": "small"},
    }.items():
        path = tmp_path / "signs" / name
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    code, out, _ = run(capsys, "predict", "./signs", photo)
    assert code == 0 and "resized from 120x90 to 24x18" in out
    assert "stir_sign small" in run(capsys, "info", "./signs")[1]


def test_unknown_data_sets_are_refused(photo):
    config = zoo.info("colour").config
    with pytest.raises(ValueError, match="`dataset` .*'stir_emoji'.*dataset='stir_emojis'"):
        read_image(photo, config=config, dataset="stir_emojis")


def test_images_for_networks_of_other_data_need_another_fit(capsys, root, photo, tmp_path):
    shutil.copytree(root / "colour", tmp_path / "birds")
    path = tmp_path / "birds" / "metrics.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"dataset": "my_birds"}))
    code, _, error = run(capsys, "predict", "./birds", photo)
    assert code == 1 and re.search("`fit` .*'trained'.*'contain'", error)
    code, out, _ = run(capsys, "predict", "./birds", photo, "--fit", "contain")
    assert code == 0 and "resized from 120x90 to 64x48" in out


def test_covering_is_cut_before_it_is_resized(photo):
    config = zoo.info("colour").config
    with Image.open(photo) as original:
        whole = np.asarray(original.resize((85, 64), Image.Resampling.BICUBIC)).astype(int)
    image = read_image(photo, config=config, dataset=CIFAR, fit="cover")
    assert np.abs(image.pixels - whole[:, 10:74]).max() <= 1
    Image.fromarray(np.arange(1_000_000).astype(np.uint8)[None]).save("line.png")
    line = read_image("line.png", config=config, dataset=CIFAR, fit="cover")
    assert re.match("L made RGB, .*1000000x1 to 64000000x64, cut to 64x64", line.how)
    middle = line.pixels[:, :, 0].astype(int)  # half of each of the two middle pixels
    assert middle.min() >= 500_000 % 256 - 2 and middle.max() <= 500_000 % 256 + 1


def save_modes(folder):
    """The same grey ramp in many modes and formats."""
    ramp = np.tile(np.linspace(0, 255, 40).round().astype(np.uint8), (30, 1))
    grey = Image.fromarray(ramp)
    files = {"grey.png": grey, "rgb.jpg": grey.convert("RGB"), "cmyk.tif": grey.convert("CMYK")}
    files |= {"palette.gif": grey.convert("P"), "bits.png": grey.convert("1")}
    files |= {"alpha.png": grey.convert("LA"), "rgba.webp": grey.convert("RGBA")}
    files |= {"deep.png": Image.fromarray(ramp.astype(np.uint16) * 257)}
    files |= {"long.tif": Image.fromarray(ramp.astype(np.int32))}
    files |= {"float.tif": Image.fromarray(ramp.astype(np.float32))}
    for name, image in files.items():
        image.save(folder / name)
    return ramp, list(files)


def test_every_mode_is_read(tmp_path):
    ramp, names = save_modes(tmp_path)
    for name in names:
        for model, dataset in (("grey", "rescaled_fashion_mnist"), ("colour", CIFAR)):
            config = zoo.info(model).config
            image = read_image(name, config=config, dataset=dataset, fit="original")
            top, left = ((n - m) // 2 for n, m in zip(config.input_size, ramp.shape, strict=True))
            part = image.pixels[top : top + 30, left : left + 40].mean(axis=-1)
            assert image.pixels.dtype == np.uint8
            if name == "bits.png":  # dithered: right on average only
                assert np.unique(part).tolist() == [0, 255]
                assert abs(part.mean() - ramp.mean()) < 6
            else:  # jpeg, webp and palettes lose a bit
                assert np.abs(part - ramp).max() <= 6, name


@pytest.mark.parametrize(
    "name, note",
    [("alpha.png", "LA made"), ("deep.png", "16 bits to 8"), ("cmyk.tif", "CMYK made grey")],
)
def test_conversions_are_told(tmp_path, name, note):
    save_modes(tmp_path)
    config, dataset = zoo.info("grey").config, "rescaled_fashion_mnist"
    how = read_image(name, config=config, dataset=dataset).how
    assert note in how or "transparent" in how


def test_transparent_parts_are_black(tmp_path):
    half = Image.new("RGBA", (20, 10), (255, 255, 255, 0))
    half.paste((255, 255, 255, 255), (0, 0, 10, 10))
    half.save("half.png")
    config = zoo.info("colour").config
    image = read_image("half.png", config=config, dataset=CIFAR, fit="original")
    assert "transparent parts made black" in image.how
    np.testing.assert_array_equal(image.pixels[32, 22:42, 0], [255] * 10 + [0] * 10)


def test_a_turned_image_is_shown_upright(tmp_path):
    config = zoo.info("colour").config
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees
    Image.new("RGB", (40, 20)).save("turned.jpg", exif=exif)
    assert "turned upright" in read_image("turned.jpg", config=config, dataset=CIFAR).how


def test_the_first_of_several_frames_is_shown(tmp_path):
    config = zoo.info("colour").config
    frames = [Image.new("L", (9, 9), value) for value in (10, 20)]
    frames[0].save("moving.gif", save_all=True, append_images=frames[1:])
    assert "first of 2 frames" in read_image("moving.gif", config=config, dataset=CIFAR).how


def bad_files(folder):
    (folder / "empty.png").touch()
    (folder / "text.png").write_text("no picture at all")
    (folder / "folder.png").mkdir()
    Image.new("RGB", (300, 300)).save(folder / "whole.png")
    content = (folder / "whole.png").read_bytes()
    (folder / "half.png").write_bytes(content[: len(content) // 2])
    Image.fromarray(np.full((4, 4), 1e6, np.int32)).save(folder / "range.tif")
    Image.fromarray(np.full((4, 4), -0.5, np.float32)).save(folder / "negative.tif")
    Image.new("LAB", (4, 4)).save(folder / "lab.tif")
    for name, side in (("large.bmp", 10_000), ("bomb.bmp", 20_000)):  # the size is in the header
        Image.new("1", (8, 8)).save(folder / name)
        header = bytearray((folder / name).read_bytes())
        header[18:26] = np.array([side, side], "<i4").tobytes()
        (folder / name).write_bytes(header)


@pytest.mark.parametrize(
    "name, message",
    [
        ("nothing.png", "no file"),
        ("empty.png", "empty"),
        ("text.png", "not an image file"),
        ("folder.png", "a folder without image files"),
        ("half.png", "broken"),
        ("range.tif", r"mode I .*1e\+06 to 1e\+06; .*0…255"),
        ("negative.tif", "mode F .*from -0.5"),
        ("large.bmp", f"too large: at most {MAX_PIXELS:,} pixels.*Received"),
        ("bomb.bmp", "too large"),
    ],
)
def test_files_that_cannot_be_used(capsys, tmp_path, name, message):
    bad_files(tmp_path)
    code, out, err = run(capsys, "predict", "colour", name)
    assert (code, out) == (1, "") and err.startswith("error: ")
    assert name in err and re.search(message, err)


def test_a_colour_mode_that_cannot_be_converted(capsys, tmp_path):
    bad_files(tmp_path)
    code, _, err = run(capsys, "predict", "grey", "lab.tif")
    assert code == 1 and re.search("lab.tif .*mode LAB.* grey", err)


def test_one_bad_file_does_not_spoil_the_others(capsys, photo):
    code, out, err = run(capsys, "predict", "colour", "nothing.png", photo, "--json")
    assert code == 1 and "nothing.png" in err
    assert [answer["file"] for answer in json.loads(out)] == ["photo.png"]


def test_predict_takes_all_images_of_a_folder(capsys, photo, tmp_path):
    for name in ("b/2.PNG", "b/10.png", "a.jpg", ".hidden.png", "@eaDir/a.png"):
        (tmp_path / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (9, 9)).save(tmp_path / "photos" / name)
    (tmp_path / "photos" / "notes.txt").write_text("no image")
    code, out, err = run(capsys, "predict", "colour", "photos", photo)
    files = [line.split()[0] for line in out.splitlines() if not line.startswith(" ")]
    assert (code, err) == (0, "")
    assert files == ["photos/a.jpg", "photos/b/10.png", "photos/b/2.PNG", photo]
    (tmp_path / "photos" / "b" / "10.png").write_bytes(b"")
    code, out, err = run(capsys, "predict", "colour", "photos", "--json")
    assert code == 1 and err == "error: photos/b/10.png is empty: it has no bytes.\n"
    assert [answer["file"] for answer in json.loads(out)] == ["photos/a.jpg", "photos/b/2.PNG"]


def test_no_name_is_not_the_current_folder(capsys, photo):
    code, out, err = run(capsys, "predict", "colour", "")
    assert (code, out) == (1, "") and "is a folder, not an image file" in err


def test_one_pixel(capsys, tmp_path):
    Image.new("RGB", (1, 1)).save("dot.png")
    for fit in ("trained", "contain", "cover", "original"):
        assert run(capsys, "predict", "colour", "dot.png", "--fit", fit)[0] == 0
    Image.new("L", (3000, 1)).save("line.png")
    assert run(capsys, "predict", "grey", "line.png")[0] == 0


# === evaluate ===


def test_evaluate_measures_every_size(capsys, tmp_path):
    write_fashion(tmp_path / "data")
    arguments = ["evaluate", "grey", "--data-dir", "data", "--json"]
    code, out, err = run(capsys, *arguments)
    measured = json.loads(out)
    assert code == 0 and list(measured) == list(zoo.info("grey").accuracy)
    assert measured["0.500"]["published"] == 0.5
    test = load_arrays("rescaled_fashion_mnist", split="test", size_factor=2, data_dir="data")
    right = predict(zoo.load("grey"), test.images).argmax(axis=1) == test.labels
    assert measured["2.000"]["accuracy"] == pytest.approx(right.mean())
    code, out, _ = run(capsys, *arguments[:-1], "--size", 2, "--limit", 5, "--exact")
    exact = predict(zoo.load("grey", sampling_density=None), test.images[:5])
    expected = f"{np.mean(exact.argmax(axis=1) == test.labels[:5]):.2%}"
    assert code == 0 and out.splitlines()[1].split() == ["2.000", expected]


def test_evaluate_without_data(capsys):
    code, _, err = run(capsys, "evaluate", "grey", "--data-dir", "nowhere")
    assert code == 1 and "t10k-images-idx3-ubyte.gz" in err


def test_evaluate_at_a_size_that_there_is_not(capsys):
    code, _, err = run(capsys, "evaluate", "grey", "--size", "3")
    assert code == 1 and "`size_factor` must be 2^(n/4)" in err
