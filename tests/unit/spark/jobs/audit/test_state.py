"""The state of an audit that goes on: what counts, what is swept, what is refused."""

from dataclasses import replace

import pytest

from orderly.errors import ConfigError
from orderly.spark.jobs.audit.folding import Folding
from orderly.spark.jobs.audit.settings import AuditSettings
from orderly.spark.jobs.audit.state import (
    State,
    check_not_lost,
    check_same,
    judged,
    load,
    save,
    sweep,
)
from orderly.spark.jobs.files import LocalFiles

SETTINGS = AuditSettings({"topic": "t", "namesrv": "a:1"}, "n")


@pytest.fixture
def files(tmp_path):
    return LocalFiles(str(tmp_path))


def state(**fields):
    return replace(State("q1", judged(SETTINGS)), **fields)


def test_it_is_read_as_it_was_saved(files):
    assert load(files) is None
    saved = state().after(0, [1, 4]).after(3, [4, 7])
    save(files, saved)
    assert load(files) == saved
    assert saved.buckets == {1: 0, 4: 3, 7: 3}
    assert saved.folder(4) == "parts/batch=3/bucket=4"


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"schema": "orderly.spark.audit/v1", "buckets": {}}']
)
def test_another_file_of_its_name_is_refused(files, text):
    files.write("state.json", text)
    with pytest.raises(ConfigError, match="no state of an audit"):
        load(files)


def test_what_no_longer_counts_is_swept(files):
    saved = state().after(0, [1, 4]).after(3, [4, 7])
    for batch, bucket in ((0, 1), (0, 4), (2, 4), (3, 4), (3, 7), (4, 1)):
        files.write(f"parts/batch={batch}/bucket={bucket}/part-0.parquet", "x")
    files.write("parts/batch=3/_SUCCESS", "")
    sweep(files, saved)
    assert files.tree("parts") == [
        "parts/batch=0/bucket=1/part-0.parquet",
        "parts/batch=3/_SUCCESS",
        "parts/batch=3/bucket=4/part-0.parquet",
        "parts/batch=3/bucket=7/part-0.parquet",
    ]


def test_without_its_pointer_nothing_is_begun_over_the_rows_of_earlier_batches(files):
    check_not_lost(files, 0)
    files.write("parts/batch=5/bucket=4/part-0.parquet", "x")
    check_not_lost(files, 5)  # its own, of an attempt that was cut short
    with pytest.raises(ConfigError, match="is gone"):
        check_not_lost(files, 6)
    folding = Folding(files, SETTINGS, None)
    with pytest.raises(ConfigError, match="is gone"):
        folding.take(None, 6)


def test_another_address_or_limit_is_the_same_audit(files):
    source = {"TOPIC": "t", "namesrv": "b:2", "maxOffsetsPerTrigger": "5"}
    check_same(files, state(), "q1", AuditSettings(source, "n", look_at=3))


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (AuditSettings({"topic": "u"}, "n"), "topic"),
        (AuditSettings({"topic": "t", "tags": "A"}, "n"), "tags"),
        (AuditSettings({"topic": "t"}, "m"), "seq_property"),
        (AuditSettings({"topic": "t"}, "n", redact_keys=True), "redact_keys"),
    ],
)
def test_what_judges_otherwise_is_refused(files, settings, named):
    with pytest.raises(ConfigError, match=f"another {named}"):
        check_same(files, state(), "q1", settings)


def test_another_checkpoint_is_refused(files):
    with pytest.raises(ConfigError, match="judge messages twice"):
        check_same(files, state(), "q2", SETTINGS)
    check_same(files, state(), "", SETTINGS)  # not started yet
