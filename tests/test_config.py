"""Configurations: flat names in, typed and checked values out."""

import json

import pytest

from dwmr.config import Config, option_names, parse_option
from dwmr.errors import InputError


def test_replace_takes_flat_names():
    config = Config().replace(epochs=5, lr=2e-3, lr_factor=0.97, scheme="soft")
    assert (config.epochs, config.scheme) == (5, "soft")
    assert (config.hyper.lr, config.factors.lr) == (2e-3, 0.97)
    assert config.hyper.tau == Config().hyper.tau
    assert Config().epochs == 40


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("epochs=5", "epochs", 5),
        ("lr=2e-3", "lr", 0.002),
        ("low=2", "low", 2.0),
        ("tau_factor=1.01", "tau_factor", 1.01),
        ("standardize=no", "standardize", False),
        ("schedules=True", "schedules", True),
        ("schedules=0", "schedules", False),
        ("encoder=patch", "encoder", "patch"),
    ],
)
def test_options_are_read_as_their_type(text, name, value):
    read = parse_option(text)
    assert read == (name, value)
    assert type(read[1]) is type(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("epochs", "name=value"),
        ("epochs=2.5", "epochs must be a whole number, got '2.5'"),
        ("epochs=many", "epochs must be a whole number"),
        ("lr=fast", "lr must be a number, got 'fast'"),
        ("standardize=perhaps", "standardize must be true or false, got 'perhaps'"),
        ("epoch=5", "unknown option 'epoch'; did you mean 'epochs'"),
        ("gama=0.3", "did you mean 'gamma'"),
        ("hyper=1", "unknown option 'hyper'"),
    ],
)
def test_bad_options_are_refused(text, message):
    with pytest.raises(InputError, match=message):
        parse_option(text)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"bits": 2}, "bits must be at least 3, got 2"),
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"batch_size": 1}, "batch_size must be at least 2"),
        ({"triplets": -1}, "triplets must be at least 0, got -1"),
        ({"probe": "deep"}, "probe must be 'affine' or 'grid', got 'deep'"),
        ({"lr": 0}, "lr must be above 0"),
        ({"lr": float("inf")}, "lr must be a finite number"),
        ({"lr": float("nan")}, "lr must be"),
        ({"var": -0.1}, "var must be a finite number of at least 0, got -0.1"),
        ({"tau": 1}, r"tau must be in \[0, 1\)"),
        ({"gamma": 0.6}, r"gamma must be in \[0, 0.5\]"),
        ({"temperature": 0}, "temperature must be above 0"),
        ({"lr_factor": 3}, "lr_factor must be between 0.5 and 2"),
        ({"low": 5, "high": 4}, "low to high must be rising.*got 5 to 4"),
        ({"high": 65}, "within the 64 bits"),
        ({"epochs": 2.5}, "epochs must be a whole number, got 2.5"),
        ({"epochs": True}, "epochs must be a whole number, got True"),
        ({"epochs": float("inf")}, "epochs must be a whole number, got inf"),
        ({"lr": None}, "lr must be a number, got None"),
        ({"encoder": 3}, "encoder must be text, got 3"),
    ],
)
def test_values_that_cannot_work_are_refused(values, message):
    with pytest.raises(InputError, match=message):
        Config().replace(**values)


def test_a_configuration_survives_json():
    config = Config().replace(model="ae", bits=16, lr=0.01, tau_factor=1.01, standardize=False)
    assert Config.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_a_missing_field_takes_its_default():
    stored = Config().replace(epochs=7, lr=0.01).to_dict()
    del stored["triplets"], stored["hyper"]["gamma"], stored["factors"]
    assert Config.from_dict(stored) == Config().replace(epochs=7, lr=0.01)


@pytest.mark.parametrize("group", [None, "hyper", "factors"])
def test_an_unknown_field_is_refused(group):
    stored = Config().to_dict()
    (stored if group is None else stored[group])["momentum"] = 0.9
    with pytest.raises(InputError, match="unknown option 'momentum"):
        Config.from_dict(stored)


def test_every_option_can_be_set_to_what_it_is():
    config = Config()
    flat = {**config.to_dict(), **config.to_dict()["hyper"]}
    flat |= {f"{name}_factor": value for name, value in config.to_dict()["factors"].items()}
    assert config.replace(**{name: flat[name] for name in option_names()}) == config
