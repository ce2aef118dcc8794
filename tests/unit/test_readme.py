"""README.md and README.zh-CN.md say the same, and what they show and link to is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ENGLISH, CHINESE = ROOT / "README.md", ROOT / "README.zh-CN.md"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)[^)\s]*\)")
PICTURE_LIMIT = 200_000  # bytes: who looks at the page downloads them


class Page:
    """A README: its fences, and what stands outside of them, section by section."""

    def __init__(self, path):
        text = path.read_text()
        self.fences = FENCE.findall(text)
        self.prose = FENCE.sub("", text)
        self.sections = re.split(r"^(?=## )", self.prose, flags=re.MULTILINE)


@pytest.fixture(scope="module")
def english():
    return Page(ENGLISH)


@pytest.fixture(scope="module")
def chinese():
    return Page(CHINESE)


def test_both_have_the_same_blocks(english, chinese):
    assert len(english.fences) >= 4
    assert chinese.fences == english.fences


@pytest.mark.parametrize(
    ("what", "pattern"),
    [
        ("links", r"\]\([^)]*\)"),
        ("code", r"`[^`\n]+`"),
        ("cells of tables", r"(?<=\S) \|(?= |$)"),
        ("points of lists", r"^- "),
        ("words that stand out", r"\*\*"),
    ],
)
def test_section_by_section_both_have_the_same(english, chinese, what, pattern):
    ours, theirs = (
        [sorted(re.findall(pattern, section, re.MULTILINE)) for section in page.sections]
        for page in (english, chinese)
    )
    assert theirs == ours, what


def test_the_numbers_are_the_same(english, chinese):
    ours, theirs = (
        sorted(re.findall(r"\d[\d.,]*\d|\d", page.prose)) for page in (english, chinese)
    )
    assert theirs == ours


def test_the_chinese_one_is_chinese(chinese):
    for section in chinese.sections:
        assert len(re.findall(r"[\u4e00-\u9fff]", section)) > 50, section[:80]


@pytest.mark.parametrize("path", [ENGLISH, CHINESE], ids=lambda path: path.name)
def test_what_it_links_to_is_there(path):
    targets = [target for target in LINK.findall(path.read_text()) if "://" not in target]
    assert len(targets) > 20
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_its_figures_are_those_of_the_benchmarks(english):
    (section,) = (text for text in english.sections if text.startswith("## How fast"))
    figures = re.findall(r"\d+,\d{3}|\d+\.\d+", section)
    measured = "".join(path.read_text() for path in (ROOT / "benchmarks").glob("*.md"))
    assert len(figures) > 15
    assert [figure for figure in figures if figure not in measured] == []


def test_producer_and_consumer_have_fifteen_lines_at_most(english):
    programs = [text for tag, text in english.fences if tag == "python"]
    assert len(programs) == 2
    for program in programs:
        assert len([line for line in program.splitlines() if line.strip()]) <= 15


def test_its_pictures_are_small_and_load_nothing():
    pictures = {ROOT / name for name in re.findall(r"!\[[^]]*\]\(([^)]+)\)", ENGLISH.read_text())}
    assert {path.name for path in pictures} == {"demo.svg", "report.png"}
    for path in pictures:
        assert path.stat().st_size < PICTURE_LIMIT, path.name
    svg = (ROOT / "docs/pictures/demo.svg").read_text()
    assert re.findall(r"https?://(?!www\.w3\.org/)|<script|@import|url\(", svg) == []
    assert "In order: all" in svg, "the demo that was recorded did not end well"
