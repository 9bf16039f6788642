"""Charts, history and addresses: the plugin's small pure parts."""

from math import isnan, nan

import pytest

from penstock_kubectl.__main__ import main
from penstock_kubectl.cli import duration, pair
from penstock_kubectl.cluster import proxied
from penstock_kubectl.explain_view import chart, extent, shrunk
from penstock_kubectl.history import DemandHistory, TimeRange, demand, queries, series, span


def test_a_chart_goes_from_nothing_to_its_largest_value() -> None:
    assert chart([0, 1, 4, 8]) == [" ▁▄█"]
    assert chart([0, 8, 16], height=2) == ["  █", " ██"]


def test_what_is_unknown_is_a_dot_and_no_zero() -> None:
    assert chart([nan, 0, 2]) == ["· █"]
    assert extent([nan, 3, 1, nan]) == (1, 3, 1)
    assert extent([nan]) is None


def test_a_burst_outlives_being_shrunk() -> None:
    values = [1.0] * 1000
    values[437] = 50.0
    assert max(shrunk(values, 60)) == 50.0
    assert len(shrunk(values, 60)) == 60


def test_a_series_has_a_value_a_step_and_nan_where_nothing_is_known() -> None:
    over = span(1000.0, 60.0)
    assert (over.start, over.step) == (940.0, 15.0)
    answer = {"data": {"result": [{"values": [[940, "1"], [970.001, "3"], [985, "NaN"]]}]}}
    values = series(answer, over)
    assert values[0] == 1
    assert values[2] == 3
    assert [isnan(value) for value in values] == [False, True, False, True, True]


def test_demand_begins_where_it_is_known_and_gaps_are_bridged() -> None:
    over = TimeRange(1000.0, 1105.0, 15.0)
    history = demand((nan, nan, 5.0, nan, nan, 8.0, 6.0, nan), over)
    assert history.began == 1030.0
    assert history.rates == [(rate, 15.0) for rate in (5.0, 6.0, 7.0, 8.0, 6.0, 6.0)]
    assert history.unknown == 0.5


def test_a_demand_of_which_nothing_is_known_has_no_rates() -> None:
    assert demand((nan, nan), TimeRange(1000.0, 1015.0, 15.0)) == DemandHistory([], 1000.0, 0.0)
    assert demand((), TimeRange(1000.0, 1015.0, 15.0)).rates == []


def test_names_are_quoted_in_promql() -> None:
    assert 'pool="a\\"b"' in queries("n", ['a"b'], span(0, 60))["demand"]


def test_the_history_of_a_pool_with_variants_is_that_of_their_pools() -> None:
    assert 'pool=~"chat-gpu|chat-cpu"' in queries("n", ["chat-gpu", "chat-cpu"], span(0, 60))["p99"]  # fmt: skip


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("http://prometheus.monitoring.svc:9090", "prometheus:9090/proxy"),
        ("http://prometheus.monitoring:9090/", "prometheus:9090/proxy"),
        ("http://prometheus.monitoring.svc.cluster.local/x/", "prometheus:80/proxy/x"),
        ("https://prometheus.monitoring.svc", "https:prometheus:443/proxy"),
    ],
)
def test_a_service_of_the_cluster_is_reached_through_the_api_server(url: str, path: str) -> None:
    assert proxied(url) == f"/api/v1/namespaces/monitoring/services/{path}"


@pytest.mark.parametrize("url", ["http://127.0.0.1:9090", "http://localhost:9090", "http://a.b.example.org"])  # fmt: skip
def test_any_other_address_is_queried_directly(url: str) -> None:
    assert proxied(url) is None


def test_durations_and_curves_are_read_with_their_units() -> None:
    assert duration("90s") == 90
    assert duration("1.5h") == 5400
    assert pair("40,5") == (40.0, 5.0)
    for text in ("90", "h", "0s", "-1h"):
        with pytest.raises(Exception, match="invalid"):
            duration(text)
    with pytest.raises(Exception, match="positive"):
        pair("1,0")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("simulate chat --cache-tokens 0", "--cache-tokens: '0' must be an integer above 0"),
        ("simulate chat --cache-tokens many", "--cache-tokens: 'many' must be an integer"),
        ("simulate chat --start -3", "--start: '-3' must be an integer above 0, such as 8"),
        (
            "tune chat --objective 500@100",
            "expected milliseconds, and a percentage from 50 to 99.9",
        ),
        ("tune chat --minutes abc", "--minutes: 'abc' must be a number above 0"),
        ("tune chat --clients 1.5", "--clients: '1.5' must be an integer above 0"),
        ("tune chat --rows a", "--rows: 'a' must be an integer above 0"),
        (
            "tune chat --plot front.png",
            "--plot: invalid file 'front.png': expected a name that ends",
        ),
        ("tune chat --plot absent/front.svg", "in .svg, in a folder that exists"),
    ],
)
def test_a_bad_argument_is_refused_with_option_value_and_remedy(
    capsys: pytest.CaptureFixture[str], words: str, message: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words.split())
    assert ended.value.code == 2
    assert message in capsys.readouterr().err
