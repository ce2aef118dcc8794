"""Whether the modules that order messages are compiled, as they are in a platform wheel.

Such a wheel has their sources, too, for tracebacks and type checkers. Python would import a source
in place of a compiled file that is missing, and all would work, only slower. So the wheel lists its
compiled files, and they are checked before anything else is imported.
"""

from __future__ import annotations

from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

MARKER = "compiled.txt"  # .ci/compiled.py writes it into this folder; a pure wheel has none
LIBRARY = "orderly__mypyc"  # the code of all modules; their own files only refer to it
_FOLDER = Path(__file__).parent


def load() -> bool:
    """Return whether this installation is compiled, once it is sure that all of it can be used.

    Raises:
        ImportError: a compiled file is missing, is for another Python, or cannot be loaded.
    """
    try:
        files = (_FOLDER / MARKER).read_text("ascii").split()
    except OSError:  # none; or the package is in a zip, which never has one
        return False
    if missing := [file for file in files if not _is_importable(_FOLDER.parent / file)]:
        lacks = f"lacks {missing[0]} ({len(missing)} of {len(files)} files), or this is"
        raise ImportError(_advice(f"{lacks} another Python"))
    try:
        import_module(LIBRARY)
    except ImportError as error:
        raise ImportError(_advice(f"cannot be loaded ({error})")) from error
    return True


def _is_importable(file: Path) -> bool:
    _, _, suffix = file.name.partition(".")
    return f".{suffix}" in EXTENSION_SUFFIXES and file.exists()


def _advice(why: str) -> str:
    return (
        f"the compiled part of rocketmq-orderly in {_FOLDER} {why}. Install it again with the"
        " Python that runs it; without a compiled part: pip install --force-reinstall"
        " --no-binary rocketmq-orderly rocketmq-orderly"
    )


COMPILED = load()
