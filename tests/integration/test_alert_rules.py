"""Alerts fire at what they promise, and at nothing else: promtool runs the rules over histories."""

import json
import re
import shlex

import pytest
import yaml

from tests.docs.pages import blocks_of
from tests.support.alerts import ALERTS, CASES, FOLDER, labels
from tests.support.programs import EXAMPLES, promtool

pytestmark = pytest.mark.needs("promtool")

RULES = FOLDER / "rules" / "orderly.yaml"
ANNOTATIONS = {
    rule["alert"]: rule["annotations"]
    for group in yaml.safe_load(RULES.read_text())["groups"]
    for rule in group["rules"]
}

SAFE = 'reReplaceAll "[^%|a-zA-Z0-9_-]" "?" $labels.group'  # in a command, and in a link
OF_PAGE = f'{{{{ reReplaceAll "%" "%25" ({SAFE}) }}}}'
HOSTILE = "x'; touch /tmp/hit; $(id) #&group=y"


def said(text, labels, shown):
    """What Prometheus makes of an annotation's template."""
    safe = re.sub(r"[^%|a-zA-Z0-9_-]", "?", labels.get("group", ""))
    text = text.replace(OF_PAGE, safe.replace("%", "%25")).replace(f"{{{{ {SAFE} }}}}", safe)
    text = re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda found: labels.get(found[1], ""), text)
    return re.sub(r"\{\{ \$value[^}]*\}\}", shown, text)


def firing(name, case, shown):
    """How promtool is told of the alert that fires."""
    names = labels(name, case)
    texts = {key: said(text, names, shown) for key, text in ANNOTATIONS[name].items()}
    severity = {"severity": ALERTS[name].severity}
    return {"exp_labels": names | severity, "exp_annotations": texts}


def as_test(name, case):
    """A case as promtool's test files have it."""
    return {
        "name": f"{name}: {case.kind}",
        "interval": "1m",
        "input_series": [{"series": s, "values": v.strip()} for s, v in case.series.items()],
        "alert_rule_test": [
            {
                "eval_time": f"{minute}m",
                "alertname": name,
                "exp_alerts": [] if shown is None else [firing(name, case, shown)],
            }
            for minute, shown in case.seen.items()
        ],
    }


def test_prometheus_takes_the_rules(tmp_path):
    assert f"{len(ALERTS)} rules found" in promtool("check", "rules", str(RULES), cwd=tmp_path)


def test_prometheus_takes_the_rules_of_the_example_for_kubernetes(tmp_path):
    example = yaml.safe_load((EXAMPLES / "kubernetes" / "alerts.yaml").read_text())
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(example["spec"]))
    assert f"{len(ALERTS)} rules found" in promtool("check", "rules", "rules.yaml", cwd=tmp_path)


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_fires_when_it_should_and_only_then(name, tmp_path):
    tests = [as_test(name, case) for case in CASES[name]]
    file = {"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}
    (tmp_path / "test.yaml").write_text(yaml.safe_dump(file))
    promtool("test", "rules", "test.yaml", cwd=tmp_path)


def test_a_hostile_name_of_a_group_acts_in_no_command_and_no_link(tmp_path):
    name = "OrderlyTopicRecreated"
    tests = json.loads(json.dumps([as_test(name, case) for case in CASES[name]]).replace(
        'group=\\"pay\\"', f'group=\\"{HOSTILE}\\"'))  # fmt: skip
    wanted = [alert for test in tests for each in test["alert_rule_test"]
              for alert in each["exp_alerts"]]  # fmt: skip
    assert wanted, "a test of nothing"
    safe = "x???touch??tmp?hit????id????group?y"
    for alert in wanted:
        alert["exp_labels"]["group"] = HOSTILE
        told = alert["exp_annotations"]
        told["summary"] = told["summary"].replace("Group pay", f"Group {HOSTILE}")
        for key in ("description", "page_url"):
            told[key] = re.sub(r"\bpay\b", safe, told[key])
        command = re.search("`(.*)`", told["description"])[1]
        assert shlex.split(command) == ["orderly", "backlog", "explain", safe]
    file = {"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}
    (tmp_path / "test.yaml").write_text(yaml.safe_dump(file))
    promtool("test", "rules", "test.yaml", cwd=tmp_path)


@pytest.mark.parametrize("path", sorted((FOLDER / "dashboards").iterdir()), ids=lambda p: p.stem)
def test_prometheus_takes_what_the_dashboards_ask(path, tmp_path):
    panels = json.loads(path.read_text())["panels"]
    asked = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    rules = [{"record": f"asked:{n}", "expr": expr} for n, expr in enumerate(asked)]
    file = {"groups": [{"name": "asked", "rules": rules}]}
    (tmp_path / "asked.yaml").write_text(yaml.safe_dump(file))
    assert f"{len(asked)} rules found" in promtool("check", "rules", "asked.yaml", cwd=tmp_path)


def test_prometheus_takes_the_configuration(tmp_path):
    promtool("check", "config", str(FOLDER / "prometheus.yaml"), cwd=tmp_path)


def test_the_page_on_monitoring_tells_since_when_a_backlog_grows(tmp_path):
    (query,) = [
        block.text.strip()
        for block in blocks_of("docs/how-to/monitoring.md")
        if "timestamp" in block.text
    ]
    name = 'orderly_group_backlog_messages{cluster="a",group="shipping",instance="%s"}'
    grows = "5x60 50+100x59"  # an hour long 5, then 50, 150, 250, ... a minute
    asked = {"expr": query, "eval_time": "119m"}
    told = [{"labels": '{group="shipping"}', "value": 60 * 60}]
    tests = [
        {
            "interval": "1m",
            "input_series": [{"series": name % n, "values": values} for n in (1, 2)],
            "promql_expr_test": [asked | {"exp_samples": samples}],
        }
        for values, samples in ((grows, told), ("500+1x120", []))
    ]
    (tmp_path / "test.yaml").write_text(yaml.safe_dump({"tests": tests}))
    promtool("test", "rules", "test.yaml", cwd=tmp_path)
