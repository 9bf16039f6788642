"""`docs/reference/security.md` lists the ways out, and each is a test that exists."""

import re

from tests.unit.api.crds import ROOT

PAGE = (ROOT / "docs" / "reference" / "security.md").read_text(encoding="utf-8")
TESTS = (
    ROOT / "tests" / "unit" / "runtime" / "http" / "test_ways_out.py",
    ROOT / "tests" / "integration" / "pools" / "test_ways_out.py",
)


def test_fifteen_ways_are_listed_and_tested() -> None:
    table = PAGE.split("## Fifteen ways out")[1]
    rows = [row for row in table.splitlines() if row.startswith("| ") and "`test_" in row]
    written = {
        name
        for path in TESTS
        for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    documented = set(re.findall(r"`(test_\w+)`", table))
    assert len(rows) == 15
    assert documented == written
