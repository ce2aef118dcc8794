"""What is missing is named by a command that can be run: it asks for what we came from."""

import json

import pytest

from orderly import extras

NAMED = "pip install 'rocketmq-orderly[cli,embedded]'"
REVISION = {"url": "https://example.org/x.git", "vcs_info": {"vcs": "git", "commit_id": "c0ffee"}}


@pytest.mark.parametrize(
    ("place", "command"),
    [
        ({}, NAMED),
        ({"url": "file:///gone/for/ever", "dir_info": {}}, NAMED),
        ({"url": "https://example.org/orderly.whl", "archive_info": {}}, NAMED),
        (
            REVISION,
            "pip install 'rocketmq-orderly[cli,embedded] @ git+https://example.org/x.git@c0ffee'",
        ),
    ],
)
def test_a_package_of_a_registry_or_of_a_revision(place, command):
    assert extras.command(place, ("cli", "embedded")) == command


@pytest.mark.parametrize("name", ["checkout", "it's here", "orderly-0.1-py3-none-any.whl"])
def test_a_package_of_a_checkout_or_of_a_file_names_that_place(tmp_path, name):
    place = tmp_path / name
    place.mkdir()
    quoted = f"{place}[cli]".replace("'", "'\"'\"'")
    noted = {"url": place.as_uri(), "dir_info": {}}
    assert extras.command(noted, ("cli",)) == f"pip install '{quoted}'"
    noted["dir_info"] = {"editable": True}
    assert extras.command(noted, ("cli",)) == f"pip install -e '{quoted}'"


@pytest.mark.parametrize("text", [None, "", "[]", "{"])
def test_what_pip_did_not_note_or_somebody_else_wrote(monkeypatch, text):
    class Distribution:
        def read_text(self, name):
            return {"direct_url.json": text}[name]

    monkeypatch.setattr("importlib.metadata.distribution", lambda name: Distribution())
    assert extras.install("cli", "embedded") == NAMED


def test_what_pip_noted_is_read(monkeypatch, tmp_path):
    class Distribution:
        def read_text(self, name):
            return json.dumps({"url": tmp_path.as_uri(), "dir_info": {}})

    monkeypatch.setattr("importlib.metadata.distribution", lambda name: Distribution())
    assert extras.install("cli") == f"pip install '{tmp_path}[cli]'"
