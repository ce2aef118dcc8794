"""A small file is on the disk before it has its name: a mark that is there is whole."""

import os

from orderly.spark.jobs.files import LocalFiles


def test_a_file_gets_its_name_when_its_content_is_on_the_disk(tmp_path, monkeypatch):
    files = LocalFiles(str(tmp_path))
    named = []
    monkeypatch.setattr(os, "fsync", lambda _: named.append(files.tree()))
    files.write("result.json", "é")
    assert named == [[".result.json.part"]]
    assert (files.read("result.json"), files.tree()) == ("é", ["result.json"])


def test_a_link_beside_a_file_does_not_choose_where_it_is_written(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    folder = tmp_path / "output"
    folder.mkdir()
    (folder / ".result.json.part").symlink_to(victim)
    files = LocalFiles(str(folder))
    files.write("result.json", "ours")
    assert (files.read("result.json"), victim.read_text()) == ("ours", "precious")
