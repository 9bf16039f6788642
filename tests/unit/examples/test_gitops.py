"""The samples of examples/gitops read every state of a pool as they should, by the tools' own libraries."""

import pytest

from tests.support.gitops.evaluate import GitOpsTools, Verdicts
from tests.unit.operator.decide.status.states import (
    STATES,
    State,
    deleted,
    edited,
    observed,
    policy_conflict,
    unobserved,
)

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
"""The first run on a machine compiles the libraries."""


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory) -> GitOpsTools:
    return GitOpsTools(tmp_path_factory.mktemp("gitops"))


def words(verdicts: Verdicts) -> tuple[str, str, str]:
    return verdicts.kstatus.status, verdicts.flux.status, verdicts.argocd.status


@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
def test_each_state_has_its_health(tools: GitOpsTools, state: State) -> None:
    (verdicts,) = tools.verdicts([observed(state.world())])
    assert words(verdicts) == (state.kstatus, state.flux or state.kstatus, state.argocd)
    if state.condition:
        assert verdicts.argocd.message.startswith(state.condition.partition("/")[2])


def test_a_pool_that_no_operator_observed_is_in_progress(tools: GitOpsTools) -> None:
    (verdicts,) = tools.verdicts([unobserved()])
    assert words(verdicts) == ("InProgress", "InProgress", "Progressing")


def test_an_edit_that_is_not_observed_is_in_progress(tools: GitOpsTools) -> None:
    (verdicts,) = tools.verdicts([edited()])
    assert words(verdicts) == ("InProgress", "InProgress", "Progressing")


def test_a_pool_that_is_being_deleted_is_in_progress(tools: GitOpsTools) -> None:
    (verdicts,) = tools.verdicts([deleted()])
    assert words(verdicts) == ("Terminating", "InProgress", "Progressing")


def test_argo_cd_shows_a_conflict_of_policies_on_a_healthy_pool(tools: GitOpsTools) -> None:
    (verdicts,) = tools.verdicts([observed(policy_conflict())])
    assert "Conflicted: policies a, b of priority 0" in verdicts.argocd.message
