"""The jobs of a plain Prometheus in the docs scrape the ports that the chart's PodMonitors scrape."""

import re

import yaml

from tests.support.pages.blocks import DOCS, ROOT, blocks

PAGE = DOCS / "how-to" / "prometheus-and-grafana.md"
MONITORS = (ROOT / "charts/penstock/templates/monitors.yaml").read_text(encoding="utf-8")


def test_the_jobs_scrape_the_ports_of_the_pod_monitors() -> None:
    (jobs,) = [yaml.safe_load(block.text) for block in blocks(PAGE) if block.language == "yaml"]
    rules = [rule for job in jobs["scrape_configs"] for rule in job["relabel_configs"]]
    ports = {
        port
        for rule in rules
        if rule["source_labels"] == ["__meta_kubernetes_pod_container_port_name"]
        for port in rule["regex"].split("|")
    }
    _, _, pod_monitors = MONITORS.partition("kind: PodMonitor")
    assert ports == set(re.findall(r"- port: (\w+)", pod_monitors))
    assert len(ports) == 3


def test_the_job_of_pools_scrapes_tls_as_the_pod_monitor_does() -> None:
    """Prometheus calls pods by IP, for which no certificate of a pool is valid."""
    (jobs,) = [yaml.safe_load(block.text) for block in blocks(PAGE) if block.language == "yaml"]
    job = next(each for each in jobs["scrape_configs"] if each["job_name"] == "penstock-pools")
    _, _, pod_monitors = MONITORS.partition("kind: PodMonitor")
    assert 'dict "insecureSkipVerify" true' in pod_monitors
    assert job["tls_config"] == {"insecure_skip_verify": True}
    scheme = "__meta_kubernetes_pod_annotation_penstock_dev_scheme"
    assert f"sourceLabels: [{scheme}]" in pod_monitors
    (rule,) = [each for each in job["relabel_configs"] if each["source_labels"] == [scheme]]
    assert rule == {"source_labels": [scheme], "regex": "(https)", "target_label": "__scheme__"}
