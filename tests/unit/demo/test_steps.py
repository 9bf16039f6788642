"""Headings of the demo's steps, and what the demo says that it takes."""

from tests.demo import start, steps
from tests.support.cluster.preparation import ENVIRONMENT, GO_TOOLS


def test_a_heading_has_its_number_its_time_and_the_time_until_the_show() -> None:
    said = steps.heading("make", {"make": 540})
    assert said.startswith("== step 2 of 6, about 9 min: download, build")
    assert "(about 10 min to the first line of the show)" in said


def test_the_show_and_what_follows_it_count_down_to_nothing() -> None:
    assert "first line" not in steps.heading("show", {})
    assert steps.heading("chat", {}).startswith("== step 6 of 6")


def test_short_times_are_seconds_and_long_ones_minutes() -> None:
    assert [steps.about(seconds) for seconds in (0, 42, 100)] == [
        "about 5 s",
        "about 40 s",
        "about 2 min",
    ]


def test_the_bill_names_what_is_missing_and_the_disk_that_stays() -> None:
    said = start.bill([GO_TOOLS["node"], ENVIRONMENT])
    assert said[:2] == ["missing: Kubernetes, with Go", "missing: Python packages of the demo"]
    assert any("GB stay until `make clean-cache`" in line for line in said)


def test_a_machine_that_has_all_is_told_so() -> None:
    assert start.bill([])[0] == "all is built: nothing is downloaded"
