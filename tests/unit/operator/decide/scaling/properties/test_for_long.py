"""Every property for as long as PENSTOCK_PROPERTY_SECONDS says: rounds of fresh examples over all of them."""

import os
import time

import pytest

from tests.unit.operator.decide.scaling.properties import (
    test_curves,
    test_demand,
    test_latency,
    test_memory,
    test_valves,
    test_whole_law,
)
from tests.unit.operator.decide.scaling.properties.holds import PROPERTIES, checked

SECONDS = float(os.environ.get("PENSTOCK_PROPERTY_SECONDS", "60"))
EXAMPLES_PER_ROUND = 50
MODULES = (test_curves, test_demand, test_latency, test_memory, test_valves, test_whole_law)


def test_every_module_has_its_properties_here() -> None:
    assert {name.rpartition(".")[0] for name in PROPERTIES} == {
        module.__name__ for module in MODULES
    }


@pytest.mark.long
@pytest.mark.timeout(SECONDS + 600)
def test_all_properties_for_long() -> None:
    end, rounds = time.monotonic() + SECONDS, 0
    while time.monotonic() < end:
        for law_property, drawn in PROPERTIES.values():
            if time.monotonic() < end:
                checked(law_property, drawn, EXAMPLES_PER_ROUND)()
        rounds += 1
    assert rounds >= 1
