"""`orderly context`: lists, chooses, shows what holds and why; changes nothing else in the file."""

import os
import tempfile
from contextlib import chdir, contextmanager
from pathlib import Path
from unittest import mock

from tests.unit.cli.golden.transcript import Table

FILE = """# mine
[contexts.staging]
namesrv = "stage:1"  # a comment
[contexts.prod]
namesrv = "prod:1"
"""
SECRET = f'{FILE}access_key = "app"\nsecret_key = "hush"\n'


@contextmanager
def world(text=FILE, **variables):
    """A settings file; tells its lines if it is changed."""
    asked, path = [], Path("config.toml")
    mine = {name: value for name, value in os.environ.items() if not name.startswith("ORDERLY_")}
    variables |= {"ORDERLY_CONFIG": str(path)}
    with (
        tempfile.TemporaryDirectory() as folder,
        chdir(folder),
        mock.patch.dict(os.environ, mine | variables, clear=True),
    ):
        path.write_text(text)
        path.chmod(0o640)
        yield asked
        if (now := path.read_text()) != text:
            asked += now.splitlines()
            asked.append(f"with rights {path.stat().st_mode & 0o777:o}")


TABLE = Table(__file__, world, {
    "staging holds": {"text": f'context = "staging"\n{FILE}'},
    "with a secret": {"text": SECRET},
    "a shop in the environment": {"ORDERLY_NAMESPACE": "shop"},
    "empty": {"text": ""},
})  # fmt: skip
