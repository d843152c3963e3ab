"""What is installed with sureprox: known permissive licences, no known vulnerability, true versions, known files."""

import http.server
import json
import os
import subprocess
import sys
import threading
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import hashes
import install
import licences
import vulnerabilities

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "licences.md").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
USED = ["cli", "dask", "plots", "search", "sklearn", "train", "zarr"]  # extras of users; the others are our tools


def test_every_pinned_package_has_a_known_permissive_licence():
    rows = licences.rows(PAGE)
    assert {name: version for name, (version, _, _) in rows.items()} == licences.pinned()
    assert licences.unknown(PAGE) == []


@pytest.mark.parametrize("name", sorted(licences.pinned()))
def test_the_page_says_what_the_installed_package_declares(name):
    try:
        declared = licences.declared(name)
    except PackageNotFoundError:
        pytest.skip(f"{name} is not installed here")
    assert licences.rows(PAGE)[name][1] == declared


@pytest.mark.parametrize("licence", ["?", "GPL-3.0-only", "MIT AND GPL-2.0", "Proprietary"])
def test_other_licences_are_refused(licence):
    assert licences.unknown(licences.HEAD + f"| x | 1 | {licence} | y |\n") == [f"x: {licence}"]


def test_expressions_of_permissive_licences_are_allowed():
    assert licences.unknown(licences.HEAD + "| x | 1 | MIT AND (BSD-3-Clause OR Apache-2.0) | y |\n") == []


def ask(service: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"SUREPROX_OSV": service, "no_proxy": "*"}
    script = ROOT / "scripts" / "vulnerabilities.py"
    return subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, timeout=240)


class Database(http.server.BaseHTTPRequestHandler):
    """Knows of one vulnerability, in the package that `bad` names."""

    bad = ""
    answer: bytes | None = None

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["queries"]
        found = [{"vulns": [{"id": "PYSEC-0"}]} if query["package"]["name"] == self.bad else {} for query in asked]
        body = self.answer if self.answer is not None else json.dumps({"results": found}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def database(monkeypatch):
    with http.server.HTTPServer(("127.0.0.1", 0), Database) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()
        thread.join(60)


def test_a_vulnerability_is_one_line_and_exit_code_1(database, monkeypatch):
    result = ask(database)
    assert (result.returncode, result.stdout) == (0, f"no known vulnerabilities in {len(licences.pinned())} packages\n")
    monkeypatch.setattr(Database, "bad", "numpy")
    result = ask(database)
    assert (result.returncode, result.stdout) == (1, f"numpy=={licences.pinned()['numpy']}: PYSEC-0\n")


@pytest.mark.parametrize("answer", [b"", b"<html>", b"{}", b'{"results": []}', b"[]"])
def test_an_answer_that_is_none_is_not_taken_for_none_known(database, monkeypatch, answer):
    monkeypatch.setattr(Database, "answer", answer)
    result = ask(database)
    assert (result.returncode, result.stdout) == (vulnerabilities.UNREACHABLE, "")
    assert result.stderr.startswith("not checked: ")


def test_no_pinned_package_has_a_known_vulnerability():
    result = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "vulnerabilities.py")], capture_output=True, text=True, timeout=240
    )
    if result.returncode == vulnerabilities.UNREACHABLE:
        pytest.skip(result.stderr.strip())
    assert result.returncode == 0, result.stdout


def pins(name: str) -> dict[str, str]:
    """Package: version, of a file of constraints."""
    lines = (ROOT / name).read_text().splitlines()
    found = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {canonicalize_name(package): version for package, version in found}


def test_every_pinned_version_has_its_hashes():
    versions, digests = hashes.listed((ROOT / "hashes.txt").read_text())
    assert versions == hashes.pinned(), "run scripts/hashes.py"
    assert all(digests.values())
    assert {"pip", "setuptools", "torch", "triton"} <= versions.keys()


def test_hashes_are_of_files_that_can_be_used():
    assert hashes.belongs(
        "safetensors-0.8.0-cp38-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64.whl", "safetensors", "0.8.0"
    )
    assert hashes.belongs("numpy-2.4.6-cp311-cp311-win_amd64.whl", "NumPy", "2.4.6")
    assert hashes.belongs("pre_commit-4.7.0.tar.gz", "pre-commit", "4.7.0")
    assert not hashes.belongs("numpy-2.4.6-cp310-cp310-win_amd64.whl", "numpy", "2.4.6")
    assert not hashes.belongs("numpy-2.4.5-cp311-cp311-win_amd64.whl", "numpy", "2.4.6")
    assert not hashes.belongs("numpy-2.4.6.exe", "numpy", "2.4.6")


def test_the_installation_asks_for_everything_that_is_pinned_and_required():
    wanted = [Requirement(text) for text in install.requirements(PROJECT, ["dev"])]
    pinned = pins("constraints.txt")
    for requirement in wanted:
        assert pinned[canonicalize_name(requirement.name)] in requirement.specifier, requirement
    optional = PROJECT["optional-dependencies"]
    jobs = {Requirement(text).name for text in optional["gallery"]}  # peers of the jobs; their tests skip without them
    everything = {Requirement(text).name for texts in optional.values() for text in texts} - jobs
    assert {requirement.name for requirement in wanted} >= everything - {"sureprox"}
    with pytest.raises(SystemExit, match="there is no extra 'pots'"):
        install.requirements(PROJECT, ["pots"])


def test_the_tools_are_installed_with_all_their_hashes():
    text = (ROOT / "hashes.txt").read_text()
    for name in install.TOOLS:
        versions, digests = hashes.listed(install.entry(name, text))
        assert list(versions) == [name]
        assert digests[name] == hashes.listed(text)[1][name]


def test_the_build_that_pip_prefers_is_installed_only_with_a_known_hash(monkeypatch, tmp_path):
    """Not the one of the index because its hash is known before the download."""
    text = (ROOT / "hashes.txt").read_text()
    version = hashes.pinned()["torch"]
    asked = []

    def pip(*arguments):
        asked.append(arguments)
        (tmp_path / f"torch-{version}+cpu-cp311-cp311-manylinux_2_28_x86_64.whl").touch()

    monkeypatch.setattr(install, "pip", pip)
    line = install.preferred_build("torch", text, tmp_path)
    assert asked == [("download", "--no-deps", "--dest", str(tmp_path), f"torch=={version}")]
    file, *allowed = line.splitlines()
    assert file.startswith(tmp_path.as_uri())
    assert file.endswith(".whl \\")
    assert allowed == install.entry("torch", text).splitlines()[1:]
    assert len(allowed) > 1


def test_the_oldest_versions_are_the_least_that_are_allowed():
    oldest = pins("constraints-oldest.txt")
    required = [Requirement(text) for text in install.requirements(PROJECT, USED)]
    assert {canonicalize_name(requirement.name) for requirement in required} == oldest.keys()
    for requirement in required:
        (least,) = requirement.specifier
        assert least.operator == ">="
        assert Version(least.version) == Version(oldest[canonicalize_name(requirement.name)]), requirement
    assert Version(oldest["torch"]) >= Version(
        "2.10"
    )  # before, weights_only=True does not keep a file from running code


def test_a_workflow_runs_the_tests_with_the_oldest_versions():
    text = (ROOT / ".github" / "workflows" / "tests.yml").read_text()
    assert f"-c constraints-oldest.txt -e '.[{','.join(USED)},test]'" in text
