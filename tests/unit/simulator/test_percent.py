"""The simulator's `--percent`: what a run has to attain, and what the laws plan for."""

import pytest

from penstock_simulator.options import parser, scenario

TRACE = ("simulate", "--trace", "trace.csv")


def target(*words: str) -> tuple[float, float]:
    """Return (share that must be on time, share that the law may let miss)."""
    world = scenario(parser().parse_args([*TRACE, *words]), seed=1)
    return world.target, world.settings.late.request


def test_unset_it_is_99() -> None:
    assert target() == (0.99, 0.01)


def test_the_run_and_the_law_follow_it() -> None:
    assert target("--percent", "95") == (0.95, 0.05)
    assert target("--percent", "99.9") == (0.999, 0.001)


@pytest.mark.parametrize("text", ["49", "100", "99.95", "most"])
def test_another_is_rejected_with_the_range(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        target("--percent", text)
    assert "50 to 99.9" in capsys.readouterr().err
