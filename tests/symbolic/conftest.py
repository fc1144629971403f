"""Rules learned from an exact model of IceSlider, once for all tests."""

import pytest

from dwmr.data.collect import make_transitions
from dwmr.symbolic import fast_downward, learn_symbols
from dwmr.worlds.actions import NAMES
from tests.symbolic.exact import ICE_LAYOUT, ice_encode, ice_predict


@pytest.fixture(scope="session")
def ice_levels():
    """Transitions of 50 training levels."""
    return make_transitions("iceslider", "train", 2000)


@pytest.fixture(scope="session")
def ice_symbols(ice_levels):
    unseen = make_transitions("iceslider", "test", 800)
    return learn_symbols(ice_encode, ice_predict, ice_levels, unseen, actions=NAMES[:4], layout=ICE_LAYOUT)


@pytest.fixture(scope="session")
def planner():
    """Fast Downward, or the test is skipped."""
    try:
        return fast_downward.find()
    except ValueError as error:
        pytest.skip(str(error))
