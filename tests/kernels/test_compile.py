"""Kernels are compiled wherever a process runs: where its home and the package cannot be written to as well."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from midstream.kernels import compile as compiling

PACKAGE = Path(compiling.__file__).parent.parent
RUN = """
import numpy as np
from midstream.engine.planning.constants import load_constants
from midstream.kernels import compile
load_constants()
@compile.kernel
def twice(values):
    return values * 2
print(compile._FOLDER)
print(twice(np.arange(3)).tolist())

"""


def test_what_was_compiled_with_the_package_is_used_where_it_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiling, "_package", lambda: tmp_path / "package")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    package = tmp_path / "package" / compiling._name()
    (package / "kernels").mkdir(parents=True)
    (package / "kernels" / "join.nbi").write_text("compiled")
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, how: path != package and access(path, how))
    folder = Path(compiling._cache_folder() or "")
    assert folder == tmp_path / package.name
    assert (folder / "kernels" / "join.nbi").read_text() == "compiled"
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(["package", package.name])


@pytest.mark.slow
def test_a_process_without_a_home_and_a_package_it_may_not_write_compiles(tmp_path: Path) -> None:
    copied = tmp_path / "lib" / "midstream"
    shutil.copytree(PACKAGE, copied, ignore=shutil.ignore_patterns("__pycache__"))
    for path in [copied, *copied.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    program = tmp_path / "program.py"
    program.write_text(RUN)
    # Root may write anywhere, unless it gives that right away.
    command = ["setpriv", "--bounding-set=-dac_override,-fowner"] if os.geteuid() == 0 else []
    if command and shutil.which("setpriv") is None:
        pytest.skip("root may write anywhere")
    changed = {"HOME": "/proc/nonexistent", "TMPDIR": str(temporary), "PYTHONPATH": str(copied.parent)}
    kept = {k: v for k, v in os.environ.items() if k not in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "NUMBA_CACHE_DIR")}
    done = subprocess.run(
        [*command, sys.executable, str(program)], env=kept | changed, capture_output=True, text=True, check=True
    )
    folder, result = done.stdout.splitlines()
    assert Path(folder).parent == temporary / f"midstream-{os.geteuid()}"
    assert Path(folder).parent.stat().st_mode & 0o777 == 0o700
    assert list(Path(folder).rglob("*.nbi"))
    assert result == "[0, 2, 4]"
    shutil.rmtree(tmp_path, onerror=lambda f, path, _: (os.chmod(Path(path).parent, 0o755), f(path)))


def test_what_is_compiled_is_not_read_from_where_others_may_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiling, "__file__", str(tmp_path / "missing" / "x" / "compile.py"))
    (tmp_path / "missing").write_text("")
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(compiling.tempfile, "gettempdir", lambda: str(tmp_path / "missing"))
    planted = tmp_path / "cache" / f"midstream-{os.geteuid()}"
    planted.mkdir(parents=True)
    planted.chmod(0o777)
    assert compiling._cache_folder() is None
    planted.chmod(0o700)
    assert compiling._cache_folder() == str(planted / compiling._name())
    planted.parent.chmod(0o777)
    assert compiling._cache_folder() is None


def test_without_a_place_a_process_compiles_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "_FOLDER", None)
    twice = compiling.kernel(lambda values: values * 2)
    assert twice(np.arange(3)).tolist() == [0, 2, 4]
