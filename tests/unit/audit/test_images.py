"""Both images run as a user that is not root, and hold no more than their own program."""

import re

import pytest

from penstock_operator.decide.manifests.pod_template.pod import USER
from tests.unit.api.crds import ROOT


@pytest.mark.parametrize(("room", "other"), [("operator", "runtime"), ("runtime", "operator")])
def test_an_image_runs_as_the_user_that_pods_ask_for_and_holds_one_program(
    room: str, other: str
) -> None:
    text = (ROOT / room / "Dockerfile").read_text()
    users = re.findall(r"^USER (\S+)$", text, re.MULTILINE)
    assert users == [f"{USER}:{USER}"]
    after = text.split(f"USER {USER}:{USER}")[1]
    assert "RUN" not in after
    assert "COPY" not in after
    assert f"penstock_{other}" not in text
    assert "COPY . " not in text


def test_what_is_not_for_images_is_not_sent_to_their_builder() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    assert {rule for rule in rules if rule.startswith("!")} == {
        "!pyproject.toml", "!operator", "!runtime", "!wheels"
    }  # fmt: skip
