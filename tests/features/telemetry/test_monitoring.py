"""The dashboard and the alert rules use metrics and labels that the server exports."""

import json
import re
from collections.abc import Iterator
from typing import Any, get_args

import yaml

from docs.reading import ROOT
from holdfast.folds.metrics import FIRST_TOKEN_S, Histogram, Metrics
from holdfast.server.metrics import families
from holdfast.values import OutcomeKind

MONITORING = ROOT / "deploy" / "monitoring"
_METRIC = re.compile(r"\b(holdfast_\w+)(?:\{([^}]*)\})?")
_BY = re.compile(r"by \(([^)]*)\)")
_OUTSIDE = {"instance", "le", "job"}  # labels of Prometheus


def exported() -> dict[str, set[str]]:
    """The labels of each series."""
    metrics = Metrics()
    metrics.runs_ended["completed"] = metrics.attempts["a", "done"] = metrics.failures["a", "stalled"] = 1
    metrics.tokens["a", "input"] = metrics.tools["finished"] = 1
    metrics.cost_usd["a"] = 1.0
    metrics.first_token_s["a"] = Histogram(FIRST_TOKEN_S)
    names = "active_sessions waiting_sessions open_streams open_asks event_loop_tasks event_loop_lag_seconds"
    gauges = dict.fromkeys([*names.split(), "event_loop_lag_worst_seconds"], ("", 1.0))
    return {one.name: set(one.labels) for family in families(metrics, gauges) for one in family.samples}


def dashboard_expressions() -> Iterator[str]:
    dashboard: dict[str, Any] = json.loads((MONITORING / "dashboard.json").read_text())
    for panel in dashboard["panels"]:
        yield from (target["expr"] for target in panel["targets"])


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((MONITORING / "alerts.yaml").read_text())["groups"]
    return group["rules"]


def test_each_series_and_label_of_the_dashboard_and_the_rules_is_exported() -> None:
    known = exported()
    expressions = [*dashboard_expressions(), *(rule["expr"] for rule in rules())]
    used: set[str] = set()
    for expression in expressions:
        names = _METRIC.findall(expression)
        used |= {name for name, _ in names}
        labels = {label for name, _ in names for label in known.get(name, set())} | _OUTSIDE
        for group in _BY.findall(expression):
            assert {one.strip() for one in group.split(",")} <= labels, expression
        for _, matchers in names:
            found = {one.split("=")[0].rstrip("!") for one in matchers.split(",") if one}
            assert found <= labels, expression
    assert used <= set(known)
    assert len(used) > 12


def test_each_rule_says_what_happened_and_what_to_do() -> None:
    for rule in rules():
        assert rule["for"], rule
        assert rule["annotations"]["summary"], rule
        assert rule["annotations"]["description"], rule
        for outcome in re.findall(r'outcome=~"([^"]*)"', rule["expr"]):
            assert set(outcome.split("|")) <= set(get_args(OutcomeKind))
