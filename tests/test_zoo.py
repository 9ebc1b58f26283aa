"""List, info, load: what users call, and where networks are looked for."""

import logging

import numpy as np
import pytest
from helpers import assert_rounded
from zoo_tools import predict, tiny_config, tiny_model, weights_of, write_tiny

from gdn_keras import GaussDerNetConfig, adapt, zoo
from gdn_keras.datasets import load_samples
from gdn_keras.zoo import registry, tables


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("zoo")
    write_tiny(root, "small_avg")
    write_tiny(root, "small_max", seed=1, scale_pooling="max", method="sampled")
    write_tiny(root, "small_single", channel_sigmas=(1.0,), jet_order=3)
    write_tiny(root, "cifar_small", dataset="rescaled_cifar10")
    write_tiny(root, "learned", learned_sigmas=True, channel_sigmas=(1.0,), sampling_density=None)
    untrained = tables.untrained("planned", dataset="cifar10", config=tiny_config())
    (root / "registry.json").write_text(registry.registry_text({"planned": untrained}))
    return root


@pytest.fixture
def alone(root, monkeypatch, tmp_path):
    """Only the networks of `root` are there, whatever the checkout has."""
    monkeypatch.setenv("GDN_KERAS_ZOO", str(root))
    monkeypatch.setattr(registry, "_PACKAGE", tmp_path / "gdn_keras")
    return root


# === list_models, info ===


def test_lists_all_trained_networks_by_name(alone):
    names = ["cifar_small", "learned", "small_avg", "small_max", "small_single"]
    assert zoo.list_models() == names
    assert zoo.list_models(trained=False) == sorted([*names, "planned"])


@pytest.mark.parametrize(
    "filters, expected",
    [
        (dict(pattern="small_*"), ["small_avg", "small_max", "small_single"]),
        (dict(dataset="rescaled_cifar10"), ["cifar_small"]),
        (dict(scale_pooling="max"), ["small_max"]),
        (dict(scale_pooling="single"), ["learned", "small_single"]),
        (dict(jet_order=3), ["small_single"]),
        (dict(method="sampled"), ["small_max"]),
        (dict(min_accuracy=0.53), ["cifar_small"]),  # the mean over nine sizes is 0.54
        (dict(pattern="nothing*"), []),
    ],
)
def test_filters(alone, filters, expected):
    pattern = filters.pop("pattern", None)
    assert zoo.list_models(pattern, **filters) == expected


@pytest.mark.parametrize(
    "filters, message",
    [
        (dict(scale_pooling="avg"), "`scale_pooling` must be .*'average'.*scale_pooling='avg'"),
        (dict(jet_order=5), r"`jet_order` must be one of \(1, 2, 3, 4\). Received: jet_order=5"),
        (dict(method="gauss"), r"`method` must be one of .*'discrete'.*Received: method='gauss'"),
        (dict(min_accuracy=90), r"`min_accuracy` must be a fraction, 0…1. Received.*=90"),
    ],
)
def test_wrong_filters_are_refused(alone, filters, message):
    with pytest.raises(ValueError, match=message):
        zoo.list_models(**filters)


def test_info_is_complete(alone):
    info = zoo.info("cifar_small")
    assert isinstance(info.config, GaussDerNetConfig) and info.trained
    assert info.accuracy["0.500"] == 0.5 and len(info.accuracy) == 9
    assert (info.seed, info.budget, info.lineage) == (0, "cpu", ())
    assert info.weights_bytes == (alone / "cifar_small" / "model.weights.h5").stat().st_size


def test_info_prints_well(alone):
    text = str(zoo.info("cifar_small"))
    for part in ("cifar_small", "64 x 64 x 3", "airplane", "1.000: 54.0%", "sha256", "Apache-2.0"):
        assert part in text
    assert max(map(len, text.splitlines())) <= 100


def test_info_is_a_table_in_a_notebook(alone):
    info = zoo.info("cifar_small")
    html = info._repr_html_()
    assert html.count("<tr>") == len(info.rows()) and "Lindeberg" in html


def test_info_of_html_characters_is_escaped(alone):
    import dataclasses

    info = dataclasses.replace(
        zoo.info("small_avg"), paper_accuracy=0.9, paper_where="<b>Table</b>"
    )
    assert "<b>Table" not in info._repr_html_() and "&lt;b&gt;Table" in info._repr_html_()


def test_info_of_an_untrained_configuration(alone):
    info = zoo.info("planned")
    assert not info.trained and info.accuracy is None and info.parameters > 0
    assert "none yet" in str(info)


def test_info_survives_json(alone):
    info = zoo.info("small_avg")
    assert zoo.ModelInfo.from_dict(info.to_dict()) == info


def test_a_broken_folder_does_not_hide_the_others(alone, tmp_path, monkeypatch, caplog):
    write_tiny(tmp_path / "z", "good")
    write_tiny(tmp_path / "z", "bad").path.joinpath("recipe.json").write_text("{")
    (write_tiny(tmp_path / "z", "worse").path / "metrics.json").unlink()
    monkeypatch.setenv("GDN_KERAS_ZOO", str(tmp_path / "z"))
    assert zoo.list_models() == ["good"]
    assert "recipe.json" in caplog.text and "metrics.json" in caplog.text


def test_a_registry_does_not_hide_a_folder_of_a_later_place(tmp_path, monkeypatch):
    """As that of a sweep that has not trained the network yet."""
    untrained = tables.untrained("net", dataset="cifar10", config=tiny_config())
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep" / "registry.json").write_text(registry.registry_text({"net": untrained}))
    monkeypatch.setenv("GDN_KERAS_ZOO", str(tmp_path / "sweep"))
    (tmp_path / "clone" / "gdn_keras").mkdir(parents=True)
    (tmp_path / "clone" / "pyproject.toml").touch()
    monkeypatch.setattr(registry, "_PACKAGE", tmp_path / "clone" / "gdn_keras")
    write_tiny(tmp_path / "clone" / "zoo", "net")
    assert zoo.info("net").trained and zoo.list_models() == ["net"]


# === load ===


def test_loads_what_was_written(alone):
    model = zoo.load("small_avg")
    original = weights_of(tiny_model(tiny_config()))
    for name, value in weights_of(model).items():
        np.testing.assert_array_equal(value, original[name], err_msg=name)
    golden = zoo.read_folder(alone / "small_avg").metrics.golden
    images = load_samples("fashion_mnist").images[list(golden.indices)]
    assert_rounded(predict(model, images), golden.logits)


def test_without_weights_the_network_is_fresh(alone):
    model = zoo.load("planned", weights=False)
    assert model.config == tiny_config()
    trained = weights_of(zoo.load("small_avg"))
    fresh = weights_of(zoo.load("small_avg", weights=False))
    assert not np.array_equal(trained["jet_1/kernel"], fresh["jet_1/kernel"])


@pytest.mark.parametrize("name", ["small_avg", "learned"])
def test_a_new_head_changes_only_the_last_layer(alone, name):
    before, model = weights_of(zoo.load(name)), zoo.load(name, num_classes=4)
    after = weights_of(model)
    assert model.config.class_names == () and model.output_shape == (None, 4)
    assert after["jet_3/kernel"].shape == (5, 5, 4)
    fresh = {f"jet_3/{v}" for v in ("kernel",)}
    fresh |= {f"norm_3/{v}" for v in ("gamma", "beta", "moving_mean", "moving_variance")}
    for key, value in after.items():
        if key not in fresh:
            np.testing.assert_array_equal(value, before[key], err_msg=key)
    np.testing.assert_array_equal(after["norm_3/moving_variance"], np.ones(4))


def test_the_same_number_of_classes_keeps_the_head(alone):
    before, after = (weights_of(zoo.load("small_avg", num_classes=n)) for n in (None, 10))
    np.testing.assert_array_equal(before["jet_3/kernel"], after["jet_3/kernel"])


def test_other_names_of_as_many_classes_need_a_new_head(alone):
    own = zoo.load("small_avg")
    names = tuple(f"bird {k}" for k in range(own.config.num_classes))
    model = zoo.load("small_avg", class_names=names)
    assert model.config.class_names == names
    before, after = weights_of(own), weights_of(model)
    assert not np.array_equal(before["jet_3/kernel"], after["jet_3/kernel"])
    np.testing.assert_array_equal(before["jet_2/kernel"], after["jet_2/kernel"])


def test_its_own_class_names_keep_the_head(alone):
    own = zoo.load("small_avg")
    model = zoo.load("small_avg", class_names=own.config.class_names)
    kernels = (weights_of(one)["jet_3/kernel"] for one in (own, model))
    np.testing.assert_array_equal(*kernels)


def test_class_names_say_how_many_classes_there_are(alone):
    model = zoo.load("small_avg", class_names=iter(["hen", "egg"]))
    assert model.output_shape == (None, 2) and model.config.class_names == ("hen", "egg")


@pytest.mark.parametrize(
    "arguments, changes",
    [
        (dict(input_size=40), dict(input_size=(40, 40))),
        (dict(input_size=(33, 40)), dict(input_size=(33, 40))),
        (dict(channel_sigmas=[0.5, 1.0, 2.0]), dict(channel_sigmas=(0.5, 1.0, 2.0))),
        (dict(channel_sigmas=np.array([1.0])), dict(channel_sigmas=(1.0,))),
        (dict(scale_pooling="logsumexp"), dict(scale_pooling="logsumexp")),
        (dict(spatial_selection="max"), dict(spatial_selection="max")),
        (dict(padding="mirror", reach=1.0), dict(padding="mirror", reach=1.0)),
        (dict(num_classes=None, input_size=None), dict()),
        (dict(sampling_density=None), dict(sampling_density=None)),
    ],
)
def test_overrides_give_the_same_weights_under_another_config(alone, arguments, changes):
    model = zoo.load("small_avg", **arguments)
    expected = adapt(zoo.load("small_avg"), **changes)
    assert model.config == expected.config
    images = np.random.default_rng(0).uniform(0, 255, (2, *model.config.input_size, 1))
    np.testing.assert_array_equal(predict(model, images), predict(expected, images))


@pytest.mark.parametrize(
    "name, arguments, message",
    [
        ("small_single", dict(scale_pooling="max"), "`scale_pooling` .*several scale channels"),
        ("small_avg", dict(scale_pooling="mean"), "`scale_pooling` must be one of"),
        ("small_avg", dict(input_size=(0, 3)), "`input_size` must be two positive integers"),
        ("small_avg", dict(num_classes=0), "`num_classes` must be a positive integer"),
        ("small_avg", dict(num_classes=3, class_names=("hen", "egg")), "`class_names` must"),
        ("small_avg", dict(channel_sigmas=(2.0, 1.0)), "strictly increasing"),
        ("small_avg", dict(channel_sigmas=1.0), "`channel_sigmas` must be"),
        ("small_avg", dict(widths=(4, 4)), "jet_2/kernel must have shape"),
        ("small_avg", dict(paddings="zero"), "'paddings'.*'padding'"),
        ("planned", dict(pretrained=False), "`weights=False` .*Received: pretrained=False"),
        ("small_avg", dict(sampling_density=0.1), "`sampling_density` must be None or at least"),
        ("hf://a/b@v1", dict(revision="v2"), "`revision` .*'hf://a/b@v1'"),
        ("hf://nothing", dict(), "must be hf://owner/repo"),
    ],
)
def test_contradictions_are_refused(alone, name, arguments, message):
    with pytest.raises(ValueError, match=message):
        zoo.load(name, **arguments)


def test_old_arguments_of_load_and_list(alone):
    with pytest.warns(FutureWarning, match="`pooling` .*`scale_pooling`"):
        assert zoo.load("small_avg", pooling="max").config.scale_pooling == "max"
    with pytest.warns(FutureWarning):
        assert zoo.list_models(pooling="single", jet=3, kernel="discrete") == ["small_single"]


def test_a_folder_has_no_revisions(alone):
    with pytest.raises(ValueError, match="revision='main'"):
        zoo.load(alone / "small_avg", revision="main")


def test_unknown_names_get_the_nearest(alone):
    with pytest.raises(ValueError, match="'smal_avg'.*'small_avg'"):
        zoo.load("smal_avg")
    with pytest.raises(ValueError, match="'cifarsmall'.*'cifar_small'"):
        zoo.info("cifarsmall")


def test_a_name_with_weights_is_suggested_first(monkeypatch, tmp_path):
    write_tiny(tmp_path, "avg_2jet")
    untrained = tables.untrained("avg_3jet", dataset="cifar10", config=tiny_config())
    (tmp_path / "registry.json").write_text(registry.registry_text({"avg_3jet": untrained}))
    monkeypatch.setenv("GDN_KERAS_ZOO", str(tmp_path))
    with pytest.raises(ValueError, match=r"'avg_2jet', 'avg_3jet'\?.*list_models"):
        zoo.load("avg_3jets")


def test_no_weights_yet(alone):
    with pytest.raises(FileNotFoundError, match="planned .*`weights="):
        zoo.load("planned")


def test_a_repository_without_its_scheme_is_told_how_to_write_it(alone):
    with pytest.raises(FileNotFoundError, match="owner/net.*hf://owner/net"):
        zoo.load("owner/net")
    with pytest.raises(FileNotFoundError, match="^(?!.*hf:).* /owner/net"):
        zoo.load("/owner/net")


def test_the_current_folder_has_a_name(alone, monkeypatch):
    monkeypatch.chdir(alone / "small_avg")
    assert zoo.info("./").name == "small_avg"


# === Where networks are looked for ===


def test_paths(alone):
    for path in (alone / "small_max", str(alone / "small_max"), f"{alone}/small_max/"):
        assert zoo.load(path).config.scale_pooling == "max"
    with pytest.raises(FileNotFoundError, match="nowhere"):
        zoo.load("./nowhere")
    assert zoo.info(alone / "small_max").name == "small_max"


def test_order_of_places_and_its_log(alone, monkeypatch, tmp_path, caplog):
    """GDN_KERAS_ZOO, then the checkout, then the package, then the Hub; each step is logged."""
    checkout = tmp_path / "clone"
    (checkout / "gdn_keras" / "data" / "zoo").mkdir(parents=True)
    (checkout / "pyproject.toml").touch()
    monkeypatch.setattr(registry, "_PACKAGE", checkout / "gdn_keras")
    places = [tmp_path / "mine", checkout / "zoo", checkout / "gdn_keras" / "data" / "zoo"]
    monkeypatch.setenv("GDN_KERAS_ZOO", str(places[0]))
    for seed, place in enumerate(places):
        write_tiny(place, "net", seed=seed)
    caplog.set_level(logging.DEBUG, logger="gdn_keras.zoo")
    for seed, place in enumerate(places):
        caplog.clear()
        kernel = weights_of(zoo.load("net"))["jet_1/kernel"]
        expected = weights_of(tiny_model(tiny_config(), seed=seed))["jet_1/kernel"]
        np.testing.assert_array_equal(kernel, expected)
        assert zoo.info("net").seed == seed
        assert str(place / "net") in caplog.text
        assert caplog.text.count("net: not in") == seed
        (place / "net").rename(place / ".hidden")
    with pytest.raises(ValueError, match="Unknown model 'net'"):
        zoo.load("net")


def test_a_wrong_environment_variable_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("GDN_KERAS_ZOO", str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError, match="GDN_KERAS_ZOO .*Received.*nowhere"):
        zoo.list_models()


def test_the_checkout_lists_what_is_in_its_zoo():
    """No list of names is kept anywhere: folders in zoo/ and the listing agree."""
    root = registry.checkout() / "zoo"
    present = [path.name for path in zoo.folders(root)]
    assert present and set(present) <= set(zoo.list_models())


def test_colour_images_in_a_network_for_grey_ones(tmp_path):
    path = write_tiny(tmp_path, "net").path
    colour = zoo.load(path, input_channels=3)
    images = load_samples("fashion_mnist").images[:4]
    grey = predict(zoo.load(path), images)
    assert_rounded(predict(colour, images.repeat(3, axis=-1)), grey)
    with pytest.raises(ValueError, match="'jet_1'"):
        zoo.load(path, input_channels=2)
