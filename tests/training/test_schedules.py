"""Hyperparameters of an epoch."""

import pytest

from dwmr.config import HYPER_NAMES, Config
from dwmr.training.schedules import TAU_CAP, values_at


def test_each_quantity_has_its_own_factor():
    config = Config().replace(lr=0.1, lr_factor=0.9, var=2, var_factor=1.1)
    values = values_at(config, 2)
    assert values["lr"] == pytest.approx(0.081)
    assert values["var"] == pytest.approx(2.42)
    assert values["cor"] == config.hyper.cor
    assert tuple(values) == HYPER_NAMES


def test_the_first_epoch_has_the_start_values():
    config = Config().replace(lr_factor=0.5, tau_factor=1.5)
    assert values_at(config, 0) == vars(config.hyper)


def test_tau_is_capped():
    config = Config().replace(tau=0.9, tau_factor=1.05)
    assert values_at(config, 1)["tau"] == pytest.approx(0.945)
    assert values_at(config, 10)["tau"] == TAU_CAP == 0.9999


def test_schedules_can_be_turned_off():
    config = Config().replace(lr_factor=0.5, schedules=False)
    assert values_at(config, 7) == vars(config.hyper)
