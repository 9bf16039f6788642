"""The files that an installation reads are where it looks for them."""

from tests.support.kube import install


def test_the_manifest_of_prometheus_names_the_image_that_is_replaced() -> None:
    assert f"image: {install.PROMETHEUS_IMAGE}" in install.PROMETHEUS.read_text()


def test_chart_and_crds_are_there() -> None:
    assert (install.CHART / "Chart.yaml").is_file()
    assert list(install.CRDS.glob("*.yaml"))
