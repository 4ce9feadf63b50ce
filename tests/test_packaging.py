"""What a user installs: one import root, a console script, typed; the same from wheel, sdist and editable install."""

from __future__ import annotations

import shutil
import site
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

LAYERS = ("expectations", "sinks", "streams", "transforms")
PARTS = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "constraints.txt", "trajlake", *LAYERS)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory, repo: Path) -> Path:
    """A copy of what is shipped, so that building leaves nothing in the work tree."""
    copy = tmp_path_factory.mktemp("source")
    for part in PARTS:
        if (repo / part).is_dir():
            shutil.copytree(repo / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(repo / part, copy / part)
    return copy


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory, source: Path) -> Path:
    """A folder with the sdist, and the wheel built from that sdist."""
    out = tmp_path_factory.mktemp("dist")
    _run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(source), cwd=out)
    return out


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (found,) = dist.glob("*.whl")
    return found


def _run(*command: str, cwd: Path) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=cwd, stdin=subprocess.DEVNULL, timeout=240, check=False
    )
    assert done.returncode == 0, f"{command}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


def _environment(folder: Path) -> Path:
    """A fresh virtual environment that sees our dependencies, but no installed trajlake; returns its bin folder."""
    venv.create(folder, with_pip=False, symlinks=True)
    (target,) = folder.glob("lib/python*/site-packages")
    # A path file adds the folder alone: the .pth files in it, an editable install among them, are not read again.
    dependencies = [place for place in site.getsitepackages() if Path(place).is_dir()]
    (target / "dependencies.pth").write_text("\n".join(dependencies) + "\n")
    return folder / "bin"


def _install(bin_folder: Path, *what: str) -> None:
    _run(
        *(sys.executable, "-m", "pip", "--python", str(bin_folder / "python"), "install", "--quiet", "--no-deps"),
        *("--no-index", "--no-build-isolation", "--ignore-installed", *what),
        cwd=bin_folder,
    )


def test_the_wheel_has_one_import_root_and_every_file(wheel: Path, source: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].removesuffix(".dist-info") for name in names} == {"trajlake", "trajlake-0.1.0"}
    assert "trajlake/py.typed" in names
    shipped = {name for name in names if name.startswith("trajlake/")}
    wanted = {f"{path.relative_to(source)}" for path in (source / "trajlake").rglob("*") if path.is_file()}
    for layer in LAYERS:
        wanted |= {f"trajlake/{path.relative_to(source)}" for path in (source / layer).rglob("*") if path.is_file()}
    assert shipped == wanted


def test_the_sdist_has_the_licence_and_no_tests(dist: Path) -> None:
    (sdist,) = dist.glob("*.tar.gz")
    listed = _run("tar", "-tzf", str(sdist), cwd=dist).splitlines()
    assert any(name.endswith("/LICENSE") for name in listed)
    assert not any("/tests/" in name for name in listed)


def test_the_installed_wheel_works_without_its_source(wheel: Path, tmp_path: Path) -> None:
    bin_folder = _environment(tmp_path / "env")
    _install(bin_folder, str(wheel))
    assert _run(str(bin_folder / "trajlake"), "--version", cwd=tmp_path) == "trajlake 0.1.0\n"
    assert "batch_max_rows" in _run(str(bin_folder / "trajlake"), "config", cwd=tmp_path)
    where = _run(
        *(str(bin_folder / "python"), "-c"),
        "import trajlake.streams.broker as b, trajlake.transforms as t; print(b.__file__, t.__file__, sep='\\n')",
        cwd=tmp_path,
    )
    assert all(line.startswith(str(tmp_path / "env")) for line in where.splitlines())
    for layer in LAYERS:
        probe = f"import importlib.util as u; assert u.find_spec('{layer}') is None"
        _run(str(bin_folder / "python"), "-c", probe, cwd=tmp_path)


def test_an_editable_install_sees_a_new_module_at_once_and_no_other_root(source: Path, tmp_path: Path) -> None:
    bin_folder = _environment(tmp_path / "env")
    _install(bin_folder, "--editable", str(source))
    new = source / "streams" / "brand_new.py"
    new.write_text("VALUE = 1\n")
    try:
        code = (
            "from trajlake.streams.brand_new import VALUE; import importlib.util as u; "
            "print(VALUE, u.find_spec('streams'))"
        )
        assert _run(str(bin_folder / "python"), "-c", code, cwd=tmp_path) == "1 None\n"
    finally:
        new.unlink()


def test_every_pinned_version_is_the_installed_one(repo: Path) -> None:
    """Only where the environment was made by `make setup`: elsewhere the versions are the owner's business."""
    if not Path(sys.prefix, ".trajlake-setup").exists():
        pytest.skip("not the environment of `make setup`")
    from importlib.metadata import PackageNotFoundError, version

    pins = dict(line.split("==") for line in (repo / "constraints.txt").read_text().splitlines() if "==" in line)
    differing = {}
    for name, pinned in pins.items():
        try:
            if version(name) != pinned:
                differing[name] = (version(name), pinned)
        except PackageNotFoundError:
            differing[name] = ("absent", pinned)
    assert differing == {}
