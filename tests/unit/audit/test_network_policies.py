"""Checks of the NetworkPolicies: the connections to try, and parsing of the verdicts."""

import json
from pathlib import Path

import pytest
import yaml

from tests.audit import network_policies
from tests.audit.network_policies import End, NoVerdict, PolicyCheck, verdicts
from tests.unit.charts.rendered import render

VERDICTS = "| IS ALLOWED? |  TRUE  |\n...\n| IS ALLOWED? | FALSE  |\n"


@pytest.fixture(scope="module")
def rendered() -> list[network_policies.Object]:
    return render(networkPolicy__enabled="true", poolNetworkPolicy__enabled="true")


def test_verdicts_are_read_in_order_and_each_check_needs_one() -> None:
    assert verdicts(VERDICTS, 2) == [True, False]
    with pytest.raises(NoVerdict, match="2 of 3"):
        verdicts(VERDICTS, 3)


def test_the_policies_are_those_of_the_operator_and_of_a_pool(
    rendered: list[network_policies.Object], tmp_path: Path
) -> None:
    folder, traffic, checks = network_policies.write(rendered, tmp_path)
    written = [yaml.safe_load(file.read_text()) for file in folder.iterdir()]
    assert {policy["metadata"]["namespace"] for policy in written} == {"penstock-system", "team-a"}
    assert len(json.loads(traffic.read_text())) == len(checks)


def test_every_end_is_checked_and_most_connections_are_denied(
    rendered: list[network_policies.Object],
) -> None:
    checks = list(network_policies.checks(rendered))
    allowed = [check for check in checks if check.wanted]
    assert len(allowed) == 4
    assert len(checks) - len(allowed) >= 15
    assert len(set(map(str, checks))) == len(checks)


def test_an_external_end_has_only_an_address() -> None:
    pod = End("a pod", "team-a", {"a": "b"})
    traffic = PolicyCheck(End("an external client"), pod, (8001, "control"), wanted=False).traffic()
    assert "Internal" not in traffic["Source"]
    assert traffic["Destination"]["Internal"]["Namespace"] == "team-a"
    assert traffic["ResolvedPort"] == 8001
