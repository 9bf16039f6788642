"""Properties of the law: run with a few examples as ordinary tests, and all of them for as long as an environment variable says."""

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock_operator.measured import MEASURED_MAX, MEASURED_MIN

Property = Callable[..., None]
PROPERTIES: dict[str, tuple[Property, dict[str, st.SearchStrategy[Any]]]] = {}
"""By module and name."""


def holds(examples: int = 30, **drawn: st.SearchStrategy[Any]) -> Callable[[Property], Property]:
    """Check a property on so many examples in an ordinary run, and register it for the long one."""

    def made(law_property: Property) -> Property:
        PROPERTIES[f"{law_property.__module__}.{law_property.__name__}"] = (law_property, drawn)
        return checked(law_property, drawn, examples)

    return made


def checked(
    law_property: Property, drawn: dict[str, st.SearchStrategy[Any]], examples: int
) -> Property:
    """Return the property as a function without arguments that checks so many examples."""
    profile = settings(
        max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    return profile(given(**drawn)(law_property))


MEASURED = st.one_of(
    st.just(0.0),
    st.sampled_from((MEASURED_MIN, 1e-9, 1e-3, 1.0, 1e3, 1e9, MEASURED_MAX)),
    st.floats(MEASURED_MIN, MEASURED_MAX),
    st.floats(0.001, 1000),
)
"""What a sample may hold: 0, tiny, ordinary, huge."""
SECONDS = st.one_of(st.floats(1e-6, 1e4), st.floats(0.01, 2.0))
OBJECTIVES = st.one_of(
    st.none(), st.integers(1, 20), st.integers(20, 5_000), st.integers(5_000, 36_000_000)
)
"""Milliseconds to hours."""
CAPS = st.integers(1, 4096)
