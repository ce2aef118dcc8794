"""Compile the modules that order messages, for a platform wheel: the same source, by mypyc.

It is off by default, so nobody who installs from source needs a compiler. Hatch turns it on:

    HATCH_BUILD_HOOK_ENABLE_CUSTOM=1 python -m build --wheel

pyproject.toml lists the modules (`[tool.hatch.build.targets.wheel.hooks.custom]`). The wheel keeps
their sources, for tracebacks and type checkers, and a list of its compiled files, which
orderly/compiled.py checks.
"""

# ruff: noqa: INP001

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LIBRARY = "orderly"  # mypyc adds __mypyc: one library for all of them


class CompiledModules(BuildHookInterface):
    """Adds them to the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, unless the wheel is of an editable install: that follows its sources."""
        if version == "editable":
            return
        work = Path(self.root) / "build" / f"compiled-{sys.implementation.cache_tag}"
        modules = self.config["modules"]
        built = compile_modules(modules, work)
        marker = work / "compiled.txt"
        marker.write_text("".join(f"{each}\n" for each in sorted(built)))
        build_data["force_include"] |= {str(path): name for name, path in built.items()}
        build_data["force_include"][str(marker)] = "orderly/compiled.txt"
        build_data.update(infer_tag=True, pure_python=False)


def compile_modules(modules: list[str], work: Path) -> dict[str, Path]:
    """Return the extension modules by their names in the wheel.

    Raises:
        SystemExit: mypy or the compiler found a fault, and said which.
    """
    from mypyc.build import mypycify  # noqa: PLC0415  needed here only, as is the next
    from setuptools import Distribution  # noqa: PLC0415

    sources = [f"{each.replace('.', '/')}.py" for each in modules]
    options = ["--config-file=", "--ignore-missing-imports", f"--cache-dir={work / 'mypy'}"]
    extensions = mypycify(
        [*options, *sources], debug_level="0", target_dir=str(work), group_name=LIBRARY
    )
    command = Distribution({"ext_modules": extensions}).get_command_obj("build_ext")
    command.build_lib, command.build_temp = str(work / "lib"), str(work / "temp")
    command.ensure_finalized()
    command.run()
    outputs = map(Path, command.get_outputs())
    return {path.relative_to(work / "lib").as_posix(): path for path in outputs}
