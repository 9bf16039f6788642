"""DCGM series: the utilization of a device is that of its pod."""

from typing import Any

import pytest

from penstock_operator.observe.signals.dcgm import ENGINE_ACTIVE, UTILIZATION, Devices
from penstock_operator.observed import PodSample, UtilizationSource

NOW = 1_000.0


def series(
    name: str = UTILIZATION, value: str = "80", time: str = f"{NOW - 5}", **labels: str
) -> Any:
    plain = {"__name__": name, "namespace": "team", "pod": "chat-0", "gpu": "0", "UUID": "GPU-0"}
    metric = {key: text for key, text in {**plain, **labels}.items() if text}
    return {"metric": metric, "values": [[float(time), value]]}


def duty(*known: Any, namespace: str = "team", pod: str = "chat-0") -> float | None:
    devices = Devices()
    devices.add(known)
    sample = PodSample("uid", NOW, gpu_utilization=0.33, duty_source=UtilizationSource.ENGINE)
    (applied,) = devices.apply(namespace, pod, [sample])
    return applied.gpu_utilization if applied.duty_source is UtilizationSource.DCGM else None


def test_the_utilization_of_a_gpu_is_in_percent() -> None:
    assert duty(series()) == pytest.approx(0.8)


def test_a_pod_with_several_devices_has_their_mean() -> None:
    pair = [series(value="100"), series(value="40", UUID="GPU-1", gpu="1")]
    assert duty(*pair) == pytest.approx(0.7)


def test_a_mig_instance_has_the_share_of_its_engine() -> None:
    mig = {"GPU_I_ID": "3", "GPU_I_PROFILE": "2g.20gb"}
    assert duty(series(ENGINE_ACTIVE, "0.55", **mig)) == pytest.approx(0.55)
    assert duty(series(value="90", **mig)) is None, "an instance has no such metric"
    two = [series(ENGINE_ACTIVE, "0.5", **mig), series(ENGINE_ACTIVE, "0.7", **{**mig, "GPU_I_ID": "4"})]  # fmt: skip
    assert duty(*two) == pytest.approx(0.6)


def test_the_utilization_of_a_gpu_takes_precedence_over_its_engine_share() -> None:
    assert duty(series(ENGINE_ACTIVE, "0.2"), series()) == pytest.approx(0.8)
    assert duty(series(ENGINE_ACTIVE, "0.2")) == pytest.approx(0.2)


def test_renamed_labels_of_the_exporter_are_read() -> None:
    renamed = series(
        namespace="monitoring", pod="dcgm-exporter-x", exported_namespace="team", exported_pod="chat-0"
    )  # fmt: skip
    assert duty(renamed) == pytest.approx(0.8)
    assert duty(renamed, namespace="monitoring", pod="dcgm-exporter-x") is None


def test_devices_of_other_pods_and_namespaces_are_left_out() -> None:
    assert duty(series(pod="chat-1")) is None
    assert duty(series(namespace="other")) is None
    assert duty(series(pod="")) is None, "a device in no pod"


@pytest.mark.parametrize("value", ["NaN", "-1", "101", "+Inf", "18446744073709551615", "no"])
def test_a_value_that_is_not_a_share_is_absent(value: str) -> None:
    assert duty(series(value=value)) is None


def test_an_old_value_is_absent_and_the_newest_fresh_one_counts() -> None:
    assert duty(series(time=f"{NOW - 61}")) is None
    assert duty(series(time=f"{NOW + 1}")) is None, "it is newer than the sample"
    both = series(value="10", time=f"{NOW - 40}"), series(value="60", time=f"{NOW - 10}")
    assert duty(*both) == pytest.approx(0.6)


def test_malformed_series_are_left_out() -> None:
    assert duty({}, {"metric": {}}, None, series(), {"metric": {"__name__": UTILIZATION, "pod": "x"}, "values": 3}) == pytest.approx(0.8)  # fmt: skip
