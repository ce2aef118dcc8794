"""A report of a real broker, opened and printed in a browser."""

import base64
import re

import pytest

from orderly import Message
from orderly.model import MessageQueue
from tests.support.programs import browser

pytestmark = pytest.mark.needs("chromium")

KEY = "<script>document.title = 'hacked'</script>"


@pytest.fixture
def written(orderly, client, producer, orderly_topic, group, tmp_path):
    """A group that nobody consumes for, and a report of it."""
    topic = orderly_topic(queues=2)
    client.groups.group_config(group, "broker-a")  # makes the group
    for number in range(2):
        client.brokers.update_offset(group, MessageQueue(topic, "broker-a", number), 0)
    producer.send(Message(topic, b"1", sharding_key=KEY))
    path = tmp_path / "backlog.html"
    code, out, _ = orderly("backlog", "report", group, "--out", str(path))
    assert (code, out) == (0, "")
    return path


def test_a_report_reads_on_screen_and_on_paper(written, group):
    with browser() as page:
        page.open(written.as_uri(), width=400)
        text = page.evaluate("document.body.innerText")
        assert re.search(rf"CRITICAL.*{group} \(OFFLINE\)", text)
        assert KEY in text, "the first message's key"
        assert page.evaluate("document.title").startswith("CRITICAL: Backlog of")
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        assert page.evaluate("document.querySelectorAll('svg').length") == 2
        assert page.complaints == []
        printed = page.call("Page.printToPDF", preferCSSPageSize=True, printBackground=True)
        pdf = base64.b64decode(printed["data"])
        assert re.search(rb"/MediaBox \[0 0 59[45][.\d]* 84[12]", pdf), "A4"
        assert 1 <= len(re.findall(rb"/Type /Page\b", pdf)) <= 2
