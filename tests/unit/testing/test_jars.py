"""The broker's jars: what is kept is what the list says, and no server fills the disk."""

import hashlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from orderly.testing import jars as module
from orderly.testing.jars import Jar, JarsUnavailable, fetch_jars, listed_jars

CONTENT = bytes(range(256)) * 64
JAR = Jar("org/example/a.jar", len(CONTENT), hashlib.sha256(CONTENT).hexdigest())


class Repository(ThreadingHTTPServer):
    """Answers every request with `content`, or with far more than that."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answer)
        self.content, self.endless, self.asked = CONTENT, False, 0


class Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked += 1
        self.send_response(200)
        self.end_headers()
        try:
            self.wfile.write(self.server.content)
            for _ in range(4096 * self.server.endless):  # 64 MiB: a test has an end
                self.wfile.write(self.server.content)
        except OSError:
            pass

    def log_message(self, *_):
        pass


@pytest.fixture
def repository(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Repository() as server:
        monkeypatch.setenv("ORDERLY_MAVEN_URL", f"http://127.0.0.1:{server.server_port}")
        Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server
        server.shutdown()


def test_a_kept_jar_that_was_changed_is_not_used(repository, tmp_path):
    (path,) = fetch_jars(tmp_path, jars=[JAR])
    path.write_bytes(bytes(JAR.size))
    assert fetch_jars(tmp_path, jars=[JAR]) == [path]
    assert path.read_bytes() == CONTENT
    assert repository.asked == 2
    path.write_bytes(bytes(JAR.size))
    repository.content = bytes(JAR.size)
    with pytest.raises(JarsUnavailable, match="SHA-256 differs"):
        fetch_jars(tmp_path, jars=[JAR])
    assert list(tmp_path.iterdir()) == []


def test_a_jar_that_was_not_changed_is_summed_once(repository, tmp_path, monkeypatch):
    fetch_jars(tmp_path, jars=[JAR])
    summed, real = [], hashlib.file_digest
    monkeypatch.setattr(
        module.hashlib, "file_digest", lambda *args: summed.append(args) or real(*args)
    )
    for _ in range(3):
        fetch_jars(tmp_path, jars=[JAR])
    assert len(summed) == repository.asked == 1


def test_a_download_ends_where_the_file_should(repository, tmp_path):
    repository.endless = True
    with pytest.raises(JarsUnavailable, match="longer than the file in the list"):
        fetch_jars(tmp_path, jars=[JAR])
    assert list(tmp_path.iterdir()) == []


def test_another_list_is_read_where_one_is_named(tmp_path, monkeypatch):
    monkeypatch.delenv("ORDERLY_JARS", raising=False)
    ours = listed_jars()
    other = tmp_path / "4.9.7.txt"
    other.write_text(f"# Jars of another release.\n{JAR.sha256} {JAR.size} {JAR.path}\n")
    assert listed_jars(other) == (JAR,)
    assert listed_jars() == ours
    monkeypatch.setenv("ORDERLY_JARS", str(other))
    assert listed_jars() == (JAR,)


@pytest.mark.parametrize("text", [None, "sum size path\n", "<html>\n", "abc 3\n"])
def test_what_is_no_list_of_jars_is_named(tmp_path, text):
    file = tmp_path / "jars.txt"
    if text is not None:
        file.write_text(text)
    with pytest.raises(JarsUnavailable, match=r"no list of jars.*ORDERLY_JARS"):
        listed_jars(file)
