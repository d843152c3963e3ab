"""What is installed with sureprox: every licence is known and permissive, and no version has a known vulnerability."""

import http.server
import json
import os
import subprocess
import sys
import threading
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

import licences
import vulnerabilities

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "licences.md").read_text()


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
    return subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True)


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
        thread.join()


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
        [sys.executable, str(ROOT / "scripts" / "vulnerabilities.py")], capture_output=True, text=True
    )
    if result.returncode == vulnerabilities.UNREACHABLE:
        pytest.skip(result.stderr.strip())
    assert result.returncode == 0, result.stdout
