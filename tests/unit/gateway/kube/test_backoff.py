"""A pod that is deleted while a gateway waits to try the API server again is known before it refuses requests."""

from penstock_gateway.kube.reflector import BACKOFF_SECONDS
from penstock_runtime.config.settings import DrainConfig


def test_the_longest_delay_is_shorter_than_the_time_for_which_a_pod_accepts() -> None:
    assert 1.5 * max(BACKOFF_SECONDS) < DrainConfig().accept_seconds
