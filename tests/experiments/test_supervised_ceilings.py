"""An encoder trained with labels."""

import importlib.util
from pathlib import Path

import pytest
import torch

from dwmr.data.collect import make_transitions
from dwmr.data.transitions import Splits

FILE = Path(__file__).parents[2] / "experiments" / "supervised_ceilings.py"
spec = importlib.util.spec_from_file_location("supervised_ceilings", FILE)
supervised_ceilings = importlib.util.module_from_spec(spec)
spec.loader.exec_module(supervised_ceilings)


@pytest.mark.parametrize(("own", "read"), [(False, 75), (True, 95)])
def test_labels_teach_an_encoder_to_read(own, read):
    """Four labels and flat tiles are learnt in a few updates, soonest where all cells teach the same weights."""
    train, val, test = (make_transitions("iceslider", split, 800) for split in ("train", "val", "test"))
    data = Splits(train=train, val=val, test=test)
    device = torch.device("cpu")
    found = supervised_ceilings.ceiling(data, "patch", 192, own, epochs=8, seed=0, device=device)
    blank = supervised_ceilings.ceiling(data, "patch", 192, own, epochs=0, seed=0, device=device)
    assert found["encoding"]["accuracy"] > read > 65 > blank["encoding"]["accuracy"]
    assert found["validation_f1_true_labels"][str(found["rate"])] == max(found["validation_f1_true_labels"].values())
