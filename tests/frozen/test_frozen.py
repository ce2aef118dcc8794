"""What users, programs and other releases rely on is as it was; see `tests/frozen/contract.py`."""

from dataclasses import MISSING, fields
from typing import get_args

import pytest

from orderly.protocol.park_record import Control, Parked
from orderly.protocol.state_record import Entry, Record, Unknown
from tests.frozen.contract import FACTS, GOLDEN, ON_PURPOSE, difference, path_of
from tests.frozen.documents import commands
from tests.frozen.records import records

EXTRAS = {
    "documents-spark": "pyspark",
    "names/once": "redis",
    "names/spark": "pyspark",
    "names/telemetry": "opentelemetry",
}
RECORDS = records()


@pytest.mark.parametrize("name", FACTS)
def test_nothing_changed(name):
    if name in EXTRAS:
        pytest.importorskip(EXTRAS[name])
    changed = difference(name)
    assert not changed, f"the frozen contract changed. {ON_PURPOSE}\n\n{changed}"


def test_each_file_is_one_that_is_compared():
    files = {path.relative_to(GOLDEN).with_suffix("").as_posix() for path in GOLDEN.rglob("*.*")}
    assert files == set(FACTS)


def test_every_command_that_writes_json_is_frozen():
    files = [path_of(name) for name in ("documents", "documents-spark")]
    lines = [line for file in files for line in file.read_text().splitlines()]
    assert {line.split(" | ")[0] for line in lines} == commands()


@pytest.mark.parametrize("name", RECORDS)
def test_what_was_written_is_read(name):
    lines, start = path_of("records").read_text().splitlines(), f"{name} | bytes "
    [written] = [line.removeprefix(start) for line in lines if line.startswith(start)]
    assert RECORDS[name].read(bytes.fromhex(written)) == RECORDS[name].value


def test_every_kind_of_record_is_frozen_with_all_its_fields():
    values = [record.value for record in RECORDS.values()]
    kinds = {*get_args(Record), *get_args(Control), Parked} - {Unknown}
    assert kinds <= set(map(type, values))
    entries = [value for value in values if isinstance(value, Entry)]
    for field in fields(Entry):
        told = {getattr(entry, field.name) for entry in entries}
        assert told - {field.default, MISSING}, field.name
