"""Every setting of a pod and every metric of pods and operator is documented."""

import re
from collections.abc import Iterator

import pytest

from penstock_api import names
from penstock_operator.telemetry import policy_metrics
from penstock_operator.telemetry.metrics import OWN
from penstock_operator.telemetry.pool_metrics import PREFIX, SERIES
from penstock_runtime.config import read_config
from penstock_runtime.errors import ConfigError
from tests.unit.api.examples import PAGES

FOR_DEVELOPERS = {
    "PENSTOCK_HOST", "PENSTOCK_CLIENT_PORT", "PENSTOCK_CLUSTER_PORT", "PENSTOCK_SETTINGS_FOLDER", "PENSTOCK_MODEL_FOLDER",
    "PENSTOCK_FETCHED_FOLDER", "PENSTOCK_COMPILED_FOLDER", "PENSTOCK_TERMINATION_LOG", "PENSTOCK_INSECURE_CONTROL",
}  # fmt: skip
"""Settings that the pod template fixes, for tests and development only."""
SET_BY_THE_OPERATOR = {value for name, value in vars(names).items() if name.startswith("ENV_")}


def words() -> Iterator[str]:
    """Yield the code spans of the pages without metric labels; `a_{b,c}` yields two names."""
    for page in PAGES:
        for span in re.findall(r"`([^`\n]+)`", page.read_text(encoding="utf-8")):
            several = re.match(r"^(\w+_)\{([\w,]+)\}(\w*)", span)
            if several:
                before, between, after = several.groups()
                yield from (f"{before}{part}{after}" for part in between.split(","))
            else:
                yield re.split(r"[{=]", span)[0]


DOCUMENTED = frozenset(words())


def own_metrics() -> list[str]:
    """Return the names of the operator's metrics, without their prefix."""
    assert policy_metrics.REQUESTED  # registered with the others
    families = [
        family.name + ("_total" if family.type == "counter" else "") for family in OWN.collect()
    ]
    return [family.removeprefix(PREFIX) for family in families] + [series.name for series in SERIES]


def test_every_setting_of_a_pod_is_documented() -> None:
    with pytest.raises(ConfigError) as refused:
        read_config({"PENSTOCK_UNHEARD_OF": "1"})
    known = set(re.findall(r"PENSTOCK_\w+", str(refused.value).partition("known:")[2]))
    assert len(known) > 30
    assert known - SET_BY_THE_OPERATOR - FOR_DEVELOPERS - DOCUMENTED == set()


def test_every_metric_of_a_pod_is_documented() -> None:
    metrics = [value for name, value in vars(names).items() if name.startswith("METRIC_")]
    assert len(metrics) > 30
    assert [
        metric for metric in metrics if not {metric, metric.removeprefix("penstock_")} & DOCUMENTED
    ] == []


def test_every_metric_of_the_operator_is_documented() -> None:
    assert [metric for metric in own_metrics() if not {metric, PREFIX + metric} & DOCUMENTED] == []
