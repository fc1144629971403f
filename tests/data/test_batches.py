"""An epoch's random choices, and the minibatches they pick."""

import numpy as np
import pytest
import torch

from dwmr import load_transitions
from dwmr.data.batches import Loader, draw_triplets, open_uniform, plan_epoch
from dwmr.seeding import rng


def plan(seed: int = 0, epoch: int = 0, count: int = 50, batch_size: int = 16, bits: int = 6, **kinds):
    return plan_epoch(seed, epoch, count, batch_size, bits, **kinds)


def same(one, other) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in ("order", "noise", "triplets"))


def test_a_plan_is_a_function_of_seed_and_epoch():
    everything = {"noise": True, "triplets": 10}
    first = plan(3, 5, **everything)
    assert same(first, plan(3, 5, **everything))
    for other in (plan(4, 5, **everything), plan(3, 6, **everything)):
        for name in ("order", "noise", "triplets"):
            assert not np.array_equal(getattr(first, name), getattr(other, name))


def test_what_is_drawn_does_not_depend_on_what_else_is_drawn():
    assert np.array_equal(plan().order, plan(noise=True, triplets=3).order)
    assert np.array_equal(plan(noise=True).noise, plan(noise=True, triplets=3).noise)


def test_every_transition_comes_once_and_the_incomplete_minibatch_is_dropped():
    order = plan(count=50, batch_size=16).order
    assert order.shape == (3, 16)
    assert len(plan(count=50, batch_size=16)) == 3
    assert len(set(order.ravel())) == 48
    assert set(order.ravel()) <= set(range(50))
    assert set(plan(count=48, batch_size=16).order.ravel()) == set(range(48))


def test_all_transitions_are_used_over_a_few_epochs():
    used = {index for epoch in range(5) for index in plan(epoch=epoch).order.ravel()}
    assert used == set(range(50))


@pytest.mark.parametrize("bits", [3, 4, 7])
def test_triplets_are_distinct_and_uniform(bits):
    triplets = draw_triplets(rng(0, "triplets"), bits, (100, 210))
    assert triplets.shape == (100, 210, 3)
    flat = triplets.reshape(-1, 3)
    assert flat.min() == 0
    assert flat.max() == bits - 1
    kinds, counts = np.unique(flat, axis=0, return_counts=True)
    assert all(len(set(triplet)) == 3 for triplet in kinds.tolist())
    assert len(kinds) == bits * (bits - 1) * (bits - 2)
    assert np.allclose(counts, len(flat) / len(kinds), rtol=0.5)


def test_noise_is_uniform_and_its_logits_standard_logistic():
    uniform = plan(count=4000, batch_size=1000, bits=10, noise=True).noise
    assert uniform.shape == (4, 1000, 10)
    assert uniform.dtype == np.float32
    noise = torch.logit(torch.from_numpy(uniform)).numpy()
    assert noise.std() == pytest.approx(np.pi / np.sqrt(3), rel=0.03)
    for quantile in (0.1, 0.5, 0.9):
        assert np.quantile(noise, quantile) == pytest.approx(np.log(quantile / (1 - quantile)), abs=0.05)


def test_noise_is_finite_even_at_the_ends():
    class Zeros:
        def random(self, shape, dtype):
            return np.zeros(shape, dtype)

    assert torch.logit(torch.from_numpy(open_uniform(Zeros(), (2,)))).isfinite().all()
    assert torch.logit(torch.tensor(1 - 2.0**-24)).isfinite()  # the largest float32 below 1


def test_nothing_is_drawn_that_is_not_needed():
    assert plan().noise is None
    assert plan().triplets is None


def batches_of(data, chosen):
    """The minibatches of a plan, their images as bytes."""
    loader = Loader(data, torch.device("cpu"), lambda images: images)
    loader.lay_out([chosen])
    return [loader.batch(torch.tensor([update])) for update in range(len(chosen))]


def test_the_loader_gives_the_planned_transitions(tiny):
    chosen = plan(count=len(tiny), batch_size=16, bits=6, noise=True, triplets=2)
    found = batches_of(tiny, chosen)
    assert len(found) == 4
    for index, noise, triplets, batch in zip(chosen.order, chosen.noise, chosen.triplets, found, strict=True):
        assert np.array_equal(batch.images.numpy(), tiny.obs[index])
        assert np.array_equal(batch.actions.argmax(-1).numpy(), tiny.actions[index])
        assert np.array_equal(batch.next_images.numpy(), tiny.next_obs[index])
        assert np.array_equal(batch.noise.numpy(), noise)
        assert np.array_equal(batch.triplets.numpy(), triplets)


def test_the_plans_of_several_runs_have_a_run_axis(tiny):
    chosen = [plan(seed, count=len(tiny), batch_size=16) for seed in (0, 1)]
    loader = Loader(tiny, torch.device("cpu"), lambda images: images)
    loader.lay_out(chosen)
    batch = loader.batch(torch.tensor([2]))
    for run in range(2):
        assert np.array_equal(batch.images[run].numpy(), tiny.obs[chosen[run].order[2]])


def test_the_loader_reads_from_the_disk(tiny, tmp_path):
    tiny.save(tmp_path / "t")
    stored = load_transitions(tmp_path / "t")
    chosen = plan(count=len(tiny), batch_size=32)
    for ours, theirs in zip(batches_of(tiny, chosen), batches_of(stored, chosen), strict=True):
        assert torch.equal(ours.images, theirs.images)
        assert torch.equal(ours.actions, theirs.actions)
