"""Tables of the reference that come from code: routes, metrics, alerts, values of the chart, options of the plugin.

A table is between `<!-- table: NAME -->` and `<!-- end -->` of a page; the rest of the page is written by hand.
"""

import argparse
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import yaml

import penstock_operator.telemetry.policy_metrics  # noqa: F401 - registers its metrics
from penstock_gateway.config import GatewaySettings
from penstock_gateway.envoy_admin import EnvoyAdmin
from penstock_gateway.gateway import Gateway
from penstock_gateway.kube.api_server import ApiServer
from penstock_gateway.signals import ListenerSignals, by_tenant
from penstock_gateway.telemetry import GatewayCollector
from penstock_kubectl.cli import parser
from penstock_operator.telemetry.metrics import OWN
from penstock_operator.telemetry.pool_metrics import PREFIX, SERIES
from penstock_runtime.assembly import make_pod
from penstock_runtime.serving.limits import FIRST_LIMITS
from penstock_runtime.telemetry.metrics import Exposition
from tests.stalls.walk import ONE_SHOT
from tests.support.pages.blocks import ROOT
from tests.support.pages.openapi import paths

Row = Sequence[str]
MARKED = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
METHODS = ("get", "post")


def fill(page: str) -> str:
    """Return a page with its tables generated again.

    Raises:
        KeyError: the page names a table that does not exist.
    """
    return MARKED.sub(lambda match: f"{match[1]}{TABLES[match[2]]()}{match[3]}", page)


def _table(head: Row, rows: Iterable[Row]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(_cell(cell) for cell in line)} |\n" for line in lines)


def _cell(text: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", " ".join(text.split()))


def routes() -> str:
    """Return every route of port 8000, with the tasks that serve it."""
    rows = [
        (f"`{method.upper()} {path}`", item[method]["summary"], ", ".join(item[method]["tags"]))
        for path, item in paths().items()
        for method in METHODS
        if method in item
    ]
    return _table(("Route", "Purpose", "Served by"), rows)


def alerts() -> str:
    """Return every alert with its severity, its waiting time and its summary."""
    rules = yaml.safe_load(
        (ROOT / "charts/penstock/rules/penstock.yaml").read_text(encoding="utf-8")
    )
    listed = [rule for group in rules["groups"] for rule in group["rules"] if "alert" in rule]
    rows = [
        (
            f"`{rule['alert']}`",
            rule["labels"]["severity"],
            str(rule.get("for", "0m")),
            _placeholders(rule["annotations"]["summary"]),
        )
        for rule in listed
    ]
    return _table(("Alert", "Severity", "After", "Summary"), rows)


def _placeholders(summary: str) -> str:
    """Return a summary with Prometheus' templates as plain words in capitals."""
    named = re.sub(r"\{\{ *\$labels\.(\w+) *\}\}", lambda match: match[1].upper(), summary)
    return re.sub(r"\{\{ *\$value[^}]*\}\}", "VALUE", named)


def operator_metrics() -> str:
    """Return every metric of the operator."""
    own = [
        (metric.name, metric.type, _labels(collector), metric.documentation)
        for collector in OWN._collector_to_names
        for metric in collector.collect()
    ]
    pools = [
        (
            f"{PREFIX}{series.name}",
            "counter" if series.counts else "gauge",
            series.labels,
            series.text,
        )
        for series in SERIES
    ]
    return _metrics([*own, *pools])


def pod_metrics() -> str:
    """Return every metric of every pod."""
    return _metrics(_exported())


def gateway_metrics() -> str:
    """Return every metric of a gateway's controller."""
    settings = GatewaySettings(namespace="none", gateway="none")
    admin = EnvoyAdmin.__new__(EnvoyAdmin)  # without a connection: nothing is called
    gateway = Gateway(settings, ApiServer.__new__(ApiServer), admin, lambda: 0.0)
    return _metrics(
        (metric.name, metric.type, _labels(metric), metric.documentation)
        for metric in (*GatewayCollector(gateway, ListenerSignals()).collect(), *by_tenant())
    )


class _Meter:
    """Stands for NVML, so that the families of a device are listed without one."""

    source = ratio = memory_used = memory_total = value = 0

    def duty(self) -> "_Meter":
        return self

    memory = duty


def _exported() -> list[tuple[str, str, Sequence[str], str]]:
    config = ONE_SHOT.config()
    config = replace(config, pod=replace(config.pod, uid="uid"))
    exposition = Exposition(make_pod(config, FIRST_LIMITS))
    meter = _Meter()
    meter.source = meter  # type: ignore[assignment] # the enum of sources has a value
    exposition.collector.meter = meter  # type: ignore[assignment]
    return [
        (metric.name, metric.type, _labels(metric), metric.documentation)
        for metric in exposition._registry.collect()
        if not metric.name.startswith("process_")
    ]


def _labels(source: object) -> Sequence[str]:
    return tuple(getattr(source, "_labelnames", ()))


def _metrics(rows: Iterable[tuple[str, str, Sequence[str], str]]) -> str:
    cells = [
        (f"`{name}{'_total' if kind == 'counter' and not name.endswith('_total') else ''}`", kind,
         ", ".join(f"`{label}`" for label in labels), text)
        for name, kind, labels, text in rows
    ]  # fmt: skip
    return _table(("Metric", "Type", "Labels", "Meaning"), sorted(cells))


def chart_values() -> str:
    """Return the values of the chart as its README lists them, which helm-docs generates from `values.yaml`."""
    text = (ROOT / "charts/penstock/README.md").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    named = [
        (f"`{name}`", kind, default, text) for name, kind, default, text in rows if name != "Key"
    ]
    return _table(("Value", "Type", "Default", "Meaning"), named)


def plugin_options() -> str:
    """Return the options of `kubectl penstock`, by command."""
    commands = next(
        action.choices
        for action in parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    return _table(("Command", "Option", "Meaning"), _options(commands))


def _options(commands: Mapping[str, argparse.ArgumentParser]) -> Iterator[Row]:
    for name, command in commands.items():
        for action in command._actions:
            if "--help" in action.option_strings:
                continue
            choices = "|".join(map(str, action.choices or ()))
            value = action.metavar or choices or action.dest.upper()
            shown = [", ".join(action.option_strings), "" if action.nargs == 0 else str(value)]
            yield (
                f"`{name}`",
                f"`{' '.join(shown).strip()}`",
                (action.help or "").replace("%%", "%"),
            )


TABLES: Mapping[str, Callable[[], str]] = {
    "routes": routes,
    "alerts": alerts,
    "operator-metrics": operator_metrics,
    "pod-metrics": pod_metrics,
    "gateway-metrics": gateway_metrics,
    "chart-values": chart_values,
    "plugin-options": plugin_options,
}
