"""Probes read what is linearly readable, from training codes alone."""

import numpy as np
import pytest
import torch

from dwmr.errors import InputError
from dwmr.evaluation.probes import fit_probes
from tests.evaluation.ring import fit_probe


def random_bits(count: int, bits: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(2, (count, bits), generator=torch.Generator().manual_seed(seed)).bool()


def test_an_affine_probe_reads_each_cell_from_any_bits():
    codes, others = random_bits(8000, 8), random_bits(500, 8, seed=1)

    def board(codes: torch.Tensor) -> np.ndarray:
        """Cell 0 is bit 3; cell 1 is 2 where bits 0 and 1 are both set, 1 where one is, else 0."""
        bits = codes.numpy().astype(int)
        return np.stack([bits[:, 3], bits[:, 0] + bits[:, 1]], axis=1)

    probe = fit_probe(codes, board(codes), 3)
    assert np.array_equal(probe.read(others), board(others))


def test_a_grid_probe_reads_each_cell_from_its_own_bits_with_shared_weights():
    """Three bits in each of four cells; in training the last cell is always 0, so only shared weights can read it."""

    def board(codes: torch.Tensor) -> np.ndarray:
        channels = codes.numpy().reshape(-1, 3, 2, 2)
        return (channels[:, 0] + channels[:, 2]).astype(int) + channels[:, 2]

    codes, others = random_bits(8000, 12), random_bits(500, 12, seed=1)
    codes[:, [3, 7, 11]] = False
    probe = fit_probe(codes, board(codes), 3, "grid")
    assert probe.weight.shape == (3, 3)
    assert np.array_equal(probe.read(others), board(others).reshape(-1, 4))


def test_what_the_bits_do_not_hold_cannot_be_read():
    labels = random_bits(2000, 1, seed=2).numpy().astype(int)
    read = fit_probe(random_bits(2000, 8), labels, 2).read(random_bits(2000, 8, seed=3))
    assert 0.4 < (read == labels).mean() < 0.6


def test_a_probe_is_a_function_of_its_seed():
    codes, labels = random_bits(300, 6), random_bits(300, 2, seed=1).numpy().astype(int)
    torch.manual_seed(1)
    first = fit_probe(codes, labels, 2, seed=5)
    torch.manual_seed(2)
    again, other = fit_probe(codes, labels, 2, seed=5), fit_probe(codes, labels, 2, seed=6)
    assert torch.equal(first.weight, again.weight)
    assert not torch.equal(first.weight, other.weight)


def test_a_grid_probe_needs_bits_for_every_cell():
    with pytest.raises(InputError, match="divisible by the 4 cells, got 10 bits"):
        fit_probe(random_bits(10, 10), np.zeros((10, 2, 2), int), 2, "grid")


def test_probes_fitted_together_are_those_fitted_alone():
    codes = torch.stack([random_bits(700, 6), random_bits(700, 6, seed=8)])
    labels = np.stack([codes[0, :, 0].numpy(), codes[1, :, 3].numpy()], axis=1).astype(int)
    for kind in ("affine", "grid"):
        together = fit_probes(codes, labels, 2, kind)
        for probe, own in zip(together, codes):
            alone = fit_probe(own, labels, 2, kind)
            torch.testing.assert_close(probe.weight, alone.weight, rtol=1e-3, atol=1e-4)
            assert (probe.read(own) == alone.read(own)).mean() > 0.999
