"""Every setting of a pod, and every metric of pods and operator, is told on a page."""

import re
from collections.abc import Iterator

import pytest

from penstock_api import names
from penstock_operator.telemetry import policy_metrics
from penstock_operator.telemetry.metrics import OWN
from penstock_operator.telemetry.pool_metrics import PREFIX, SERIES
from penstock_runtime.config import RuntimeConfig
from penstock_runtime.errors import ConfigError
from tests.unit.api.examples import PAGES

FOR_DEVELOPERS = {
    "PENSTOCK_HOST", "PENSTOCK_CLIENT_PORT", "PENSTOCK_CLUSTER_PORT", "PENSTOCK_SETTINGS_FOLDER", "PENSTOCK_MODEL_FOLDER",
    "PENSTOCK_FETCHED_FOLDER", "PENSTOCK_TERMINATION_LOG", "PENSTOCK_INSECURE_CONTROL",
}  # fmt: skip
"""What a pod has from its template, and a test or a laptop otherwise."""
SET_BY_THE_OPERATOR = {value for name, value in vars(names).items() if name.startswith("ENV_")}


def words() -> Iterator[str]:
    """Yield what the pages have between backticks, without labels; `a_{b,c}` is two."""
    for page in PAGES:
        for said in re.findall(r"`([^`\n]+)`", page.read_text(encoding="utf-8")):
            several = re.match(r"^(\w+_)\{([\w,]+)\}(\w*)", said)
            if several:
                before, between, after = several.groups()
                yield from (f"{before}{one}{after}" for one in between.split(","))
            else:
                yield re.split(r"[{=]", said)[0]


TOLD = frozenset(words())


def own_metrics() -> list[str]:
    """Return the names of the operator's metrics, without their prefix."""
    assert policy_metrics.REQUESTED  # registered with the others
    families = [one.name + ("_total" if one.type == "counter" else "") for one in OWN.collect()]
    return [one.removeprefix(PREFIX) for one in families] + [one.name for one in SERIES]


def test_every_setting_of_a_pod_is_told() -> None:
    with pytest.raises(ConfigError) as refused:
        RuntimeConfig.from_env({"PENSTOCK_UNHEARD_OF": "1"})
    known = set(re.findall(r"PENSTOCK_\w+", str(refused.value).partition("known:")[2]))
    assert len(known) > 30
    assert known - SET_BY_THE_OPERATOR - FOR_DEVELOPERS - TOLD == set()


def test_every_metric_of_a_pod_is_told() -> None:
    metrics = [value for name, value in vars(names).items() if name.startswith("METRIC_")]
    assert len(metrics) > 30
    assert [one for one in metrics if not {one, one.removeprefix("penstock_")} & TOLD] == []


def test_every_metric_of_the_operator_is_told() -> None:
    assert [one for one in own_metrics() if not {one, PREFIX + one} & TOLD] == []
