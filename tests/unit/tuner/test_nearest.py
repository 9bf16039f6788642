"""The settings that miss the objective least."""

import pytest

from penstock_tuner.pareto_front import nearest
from tests.unit.tuner.test_parts import tried


def test_the_nearest_settings_have_the_share_of_all_their_trials() -> None:
    lucky, again = tried(8, 199, 100, failed=1), tried(8, 195, 100, failed=5)
    other = tried(4, 198, 100, failed=2)
    assert nearest([lucky, again, other]) == other
    assert nearest([lucky, again]).attainment == pytest.approx(394 / 400)
