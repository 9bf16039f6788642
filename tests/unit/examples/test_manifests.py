"""The manifests of examples/ are what the types say, one for each task and source, without an unknown field."""

from typing import Any

import pytest
import yaml

from penstock_api import names
from penstock_api.pod_contract import MAX_LOAD_SECONDS
from penstock_api.types.model import Task
from penstock_api.types.pool import PoolSpec
from penstock_api.types.sources import SourceType
from tests.support.gitops.evaluate import ARGO_CD_CONFIG, FLUX_KUSTOMIZATION, HEALTH_CHECK
from tests.unit.api.crds import ROOT
from tests.unit.api.examples import files, name_of
from tests.unit.api.test_docs import SPECS

FILES = files()
POOLS = [item for item in FILES.values() if item["kind"] == names.POOL_KIND]
SPECS_OF_POOLS = [PoolSpec.model_validate(item["spec"]) for item in POOLS]


def assert_understood(manifest: dict[str, Any]) -> None:
    """Check that the types accept a manifest and keep every field of it."""
    assert manifest["apiVersion"] == names.API_VERSION
    typed = SPECS[manifest["kind"]].model_validate(manifest["spec"])
    dumped = typed.model_dump(mode="json", by_alias=True, exclude_none=True)
    implied = {"replicas": 1} if manifest["kind"] == names.POOL_KIND else {}
    assert dumped == implied | manifest["spec"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_manifest_validates_and_no_field_of_it_is_ignored(path: Any) -> None:
    assert_understood(FILES[path])


def test_an_unknown_field_is_found() -> None:
    with pytest.raises(AssertionError, match="batchin"):
        assert_understood({**POOLS[0], "spec": {**POOLS[0]["spec"], "batchin": {}}})


def test_there_is_a_pool_for_each_task_and_source() -> None:
    assert {spec.model.task or Task.TENSOR for spec in SPECS_OF_POOLS} == set(Task)
    assert {spec.model.source.type for spec in SPECS_OF_POOLS} == set(SourceType)
    counts = {spec.accelerator.count if spec.accelerator else 1 for spec in SPECS_OF_POOLS}
    assert counts == {0, 1}
    assert len({name_of(item) for item in FILES.values()}) == len(FILES), (
        "all can be applied together"
    )


def test_the_policy_bounds_budgets_schedules_and_tries_out() -> None:
    (policy,) = [item for item in FILES.values() if item["kind"] == names.POLICY_KIND]
    assert policy["spec"].keys() >= {"bounds", "gpuBudgets", "schedules", "candidate"}


def test_the_candidate_of_the_policy_repeats_the_defaults_that_it_replaces() -> None:
    (policy,) = [item for item in FILES.values() if item["kind"] == names.POLICY_KIND]
    defaults, tried = policy["spec"]["defaults"], policy["spec"]["candidate"]["defaults"]
    assert {**defaults, "scaling": {**tried["scaling"], **defaults["scaling"]}} == tried


def test_flux_waits_longer_than_a_model_may_load() -> None:
    timeout = yaml.safe_load(FLUX_KUSTOMIZATION.read_text())["spec"]["timeout"]
    assert 60 * int(timeout.removesuffix("m")) > MAX_LOAD_SECONDS


def test_a_chat_model_from_the_hub_takes_six_lines_of_spec() -> None:
    text = (ROOT / "examples/pools/chat.yaml").read_text(encoding="utf-8")
    _, _, spec = text.partition("\nspec:\n")
    assert len(spec.splitlines()) == 6
    assert yaml.safe_load(text) in POOLS


def test_the_config_map_of_argo_cd_contains_the_health_check() -> None:
    data = yaml.safe_load(ARGO_CD_CONFIG.read_text())["data"]
    assert data["resource.customizations.health.penstock.dev_InferencePool"] == (
        HEALTH_CHECK.read_text()
    )
