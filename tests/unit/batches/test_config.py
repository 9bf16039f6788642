"""Settings of the batch service."""

import pytest

from penstock_batches.config import BatchSettings, pool_urls
from penstock_batches.errors import BatchesConfigError


def test_unset_settings_have_their_defaults() -> None:
    settings = BatchSettings.from_env({"PENSTOCK_NAMESPACE": "team-a", "HOME": "/"})
    assert settings == BatchSettings(namespace="team-a")


@pytest.mark.parametrize(
    ("variables", "text"),
    [
        ({}, "PENSTOCK_NAMESPACE must be set"),
        ({"PENSTOCK_NAMESPACE": "a", "PENSTOCK_NONE": "1"}, "PENSTOCK_NONE is not a setting"),
        ({"PENSTOCK_NAMESPACE": "a", "PENSTOCK_STORE": "etcd"}, "one of SQLite, Redis, got 'etcd'"),
        ({"PENSTOCK_NAMESPACE": "a", "PENSTOCK_STORE": "Redis"}, "PENSTOCK_REDIS_URL must be set"),
        ({"PENSTOCK_NAMESPACE": "a", "PENSTOCK_REDIS_URL": "http://x"}, "must begin with redis://"),
        ({"PENSTOCK_NAMESPACE": "a", "PENSTOCK_REDIS_CERT_FILE": "/c"}, "must be set together"),
        ({"PENSTOCK_NAMESPACE": "a", "PENSTOCK_MAX_IN_FLIGHT": "0"}, "from 1 to 10000, got '0'"),
        ({"PENSTOCK_NAMESPACE": "a", "PENSTOCK_FILE_DAYS": "nan"}, "got 'nan'"),
        ({"PENSTOCK_NAMESPACE": "a", "PENSTOCK_POOLS": "demo"}, "MODEL=URL by commas, got 'demo'"),
    ],
)
def test_a_bad_setting_names_variable_value_and_rule(variables: dict[str, str], text: str) -> None:
    with pytest.raises(BatchesConfigError) as caught:
        BatchSettings.from_env(variables)
    assert text in str(caught.value)


def test_pools_by_model() -> None:
    assert pool_urls("a=http://x:1/, b=c=https://y") == {"a": "http://x:1", "b=c": "https://y"}
