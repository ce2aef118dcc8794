"""Links of pages lead to pages of the site; those to other files become their text."""

import logging

import pytest

from docsite.links import Links


@pytest.fixture
def links(tmp_path):
    for path in (
        "README.md",
        "DESIGN.md",
        "CHANGELOG.md",
        "docs/how-to/once.md",
        "orderly/x.py",
        "benchmarks/peers.svg",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    return Links(tmp_path)


@pytest.mark.parametrize(
    ("place", "written", "becomes"),
    [
        ("how-to/a.md", "[b](b.md#c)", "[b](b.md#c)"),
        ("how-to/a.md", "[b](../proof/b.md)", "[b](../proof/b.md)"),
        ("how-to/a.md", "[b](#c)", "[b](#c)"),
        ("how-to/a.md", "[b](https://example.org/b.md)", "[b](https://example.org/b.md)"),
        ("how-to/a.md", "[d](../../DESIGN.md)", "[d](../project/design.md)"),
        ("how-to/a.md", "[r](../../README.md)", "[r](../index.md)"),
        ("how-to/a.md", "[x](../../orderly/x.py)", "x (`orderly/x.py`)"),
        ("how-to/a.md", "[x.py](../../orderly/x.py)", "`orderly/x.py`"),
        ("how-to/a.md", "[`orderly/x.py`](../../orderly/x.py)", "`orderly/x.py`"),
        ("project/design.md", "[o](docs/how-to/once.md#a)", "[o](../how-to/once.md#a)"),
        ("project/design.md", "[c](CHANGELOG.md)", "[c](changelog.md)"),
        ("project/design.md", "![p](docs/pictures/p.svg)", "![p](../pictures/p.svg)"),
        ("proof/benchmarks.md", "![p](peers.svg)", "![p](peers.svg)"),
        ("project/design.md", "[a\nb](CHANGELOG.md)", "[a\nb](changelog.md)"),
        ("project/design.md", "`[c](CHANGELOG.md)`", "`[c](CHANGELOG.md)`"),
        ("project/design.md", "```\n[c](CHANGELOG.md)\n```", "```\n[c](CHANGELOG.md)\n```"),
        (
            "project/design.md",
            "[![p](docs/p.svg)](docs/how-to/once.md)",
            "[![p](../p.svg)](../how-to/once.md)",
        ),
    ],
)
def test_a_link(links, place, written, becomes):
    assert links.rewritten(written, place) == becomes


def test_a_link_to_a_file_that_is_not_there_is_told(links, caplog):
    with caplog.at_level(logging.WARNING, "mkdocs.docsite"):
        links.rewritten("[x](../../orderly/gone.py)", "how-to/a.md")
    assert "how-to/a.md: there is no file orderly/gone.py" in caplog.text
