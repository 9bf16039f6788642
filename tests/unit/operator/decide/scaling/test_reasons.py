"""Reasons count one replica as one."""

from penstock_operator.decide.scaling.reasons import counted


def test_a_count_agrees_with_its_noun_and_verb() -> None:
    assert counted(1, "suffice") == "1 replica suffices"
    assert counted(2, "suffice") == "2 replicas suffice"
    assert (counted(1), counted(3)) == ("1 replica", "3 replicas")
