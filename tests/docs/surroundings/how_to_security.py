"""docs/how-to/security.md: an authority's certificate, and the page's own settings file."""

import os
from pathlib import Path

from tests.support.certificates import Authority

REPLACE = {"/etc/mq/ca.pem": "ca.pem", "/etc/orderly/config.toml": "config.toml"}
SETTINGS = """
[contexts.prod]
namesrv = "mq-1:9876;mq-2:9876"
tls = true
tls_ca_file = "ca.pem"
"""


def before(page, block):
    if block.number == 2:
        Authority(page.folder)
        Path("config.toml").write_text(SETTINGS)
        page.fixture("monkeypatch").setenv("MQ_SECRET", "secret")
        assert "ORDERLY_SECRET_KEY" not in os.environ


def check(page):
    page.names["client"].close()
