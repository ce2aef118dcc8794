"""Standard input and output that are closed, full or of few characters: never a traceback."""

import subprocess
import sys

import pytest

ORDERLY = f"{sys.executable} -m orderly.cli"


def shell(line):
    """Run a line of bash: (exit code, what comes out at its stdout and stderr together)."""
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("context ls >&-", 0, "there are no contexts"),
        ("--help >&- 2>&-", 0, ""),
        ("no-such 2>&-", 3, ""),
        ("context show > /dev/full", 3, "error: no space left on device"),
        ("send orders <&-", 3, "error: BODY is empty"),
        ("send orders --lines <&-", 0, ""),
        ("dlq replay shipping <&-", 3, "error: group shipping has no dead letters"),
    ],
)
def test_closed_and_full(orderly_fake, monkeypatch, line, code, said):
    orderly_fake.create_topic("orders", 1)
    monkeypatch.setenv("ORDERLY_NAMESRV", orderly_fake.namesrv)
    found, told = shell(f"{ORDERLY} {line}")
    assert found == code
    assert told.startswith(said)
    assert len(told.splitlines()) <= 1


def test_names_in_another_script_where_only_ascii_goes_out(tmp_path, monkeypatch):
    settings = tmp_path / "config.toml"
    settings.write_text('[contexts."생산"]\nnamesrv = "a:1"\n', encoding="utf-8")
    monkeypatch.setenv("ORDERLY_CONFIG", str(settings))
    code, told = shell(f"PYTHONIOENCODING=ascii {ORDERLY} context ls")
    assert (code, "Traceback" in told, "bug" in told) == (0, False, False)
    assert "a:1" in told
