"""What is asked about the NetworkPolicies, and how the answers are read."""

import json
from pathlib import Path

import pytest
import yaml

from tests.audit import reach
from tests.audit.reach import End, NoVerdict, PolicyCheck, verdicts
from tests.unit.charts.rendered import render

SAID = "| IS ALLOWED? |  TRUE  |\n...\n| IS ALLOWED? | FALSE  |\n"


@pytest.fixture(scope="module")
def rendered() -> list[reach.Object]:
    return render(networkPolicy__enabled="true", poolNetworkPolicy__enabled="true")


def test_answers_are_read_in_order_and_none_may_be_lacking() -> None:
    assert verdicts(SAID, 2) == [True, False]
    with pytest.raises(NoVerdict, match="2 of 3"):
        verdicts(SAID, 3)


def test_the_policies_are_the_operators_own_and_what_it_makes_for_a_pool(
    rendered: list[reach.Object], tmp_path: Path
) -> None:
    held, traffic, asked = reach.write(rendered, tmp_path)
    written = [yaml.safe_load(one.read_text()) for one in held.iterdir()]
    assert {one["metadata"]["namespace"] for one in written} == {"penstock-system", "team-a"}
    assert len(json.loads(traffic.read_text())) == len(asked)


def test_every_end_is_asked_about_and_who_is_let_in_is_the_exception(
    rendered: list[reach.Object],
) -> None:
    asked = list(reach.questions(rendered))
    let_in = [one for one in asked if one.wanted]
    assert len(let_in) == 4
    assert len(asked) - len(let_in) >= 15
    assert len(set(map(str, asked))) == len(asked)


def test_who_is_outside_has_an_address_and_nothing_else() -> None:
    pod = End("a pod", "team-a", {"a": "b"})
    traffic = PolicyCheck(End("somebody"), pod, (8001, "control"), wanted=False).traffic()
    assert "Internal" not in traffic["Source"]
    assert traffic["Destination"]["Internal"]["Namespace"] == "team-a"
    assert traffic["ResolvedPort"] == 8001
