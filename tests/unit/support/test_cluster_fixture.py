"""A test outside the cluster's folders needs no cluster, whatever its parameters are called."""

import pytest


@pytest.mark.parametrize("target", [1])
def test_a_parameter_named_like_a_fixture_of_the_cluster_needs_no_cluster(
    target: int, request: pytest.FixtureRequest
) -> None:
    assert target == 1
    assert "_cluster" not in request.fixturenames
