"""Checks of connectors that do not depend on what Hermes reports. Each line says what was proved, and no more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from paddock.recipes.checks import Check
from paddock.recipes.hermes.connector_spec import MatrixSpec, NtfySpec
from paddock.recipes.hermes.platforms import PLATFORMS
from paddock.recipes.hermes.spec import HermesSpec
from paddock.recipes.workload import Answer, Request, Verdict
from paddock.visible import one_line

_REFUSED: Final = (401, 403)


def proofs(agent: HermesSpec) -> Iterator[Check]:
    """Yield a check for each connector whose server can be asked, from the agent's machine and with its secrets."""
    talk = agent.connectors
    if talk.matrix:
        yield _matrix(talk.matrix, token="MATRIX_ACCESS_TOKEN" in agent.secrets)
    if talk.ntfy and ("NTFY_TOKEN" in agent.secrets or not agent.environment_files):
        yield _ntfy(talk.ntfy, "NTFY_TOKEN" if "NTFY_TOKEN" in agent.secrets else None)
    if talk.homeassistant and "HASS_TOKEN" in agent.secrets and "HASS_URL" in agent.environment:
        yield _with_token("homeassistant", agent.environment["HASS_URL"], "/api/", "HASS_TOKEN")
    for name in agent.messengers():
        proof = PLATFORMS[name].proof
        if proof and proof[0] in agent.environment and proof[2] in agent.secrets:
            yield _with_token(name, agent.environment[proof[0]], proof[1], proof[2])
    if talk.webhook:
        yield from (_webhook(agent.url("webhook"), route) for route in talk.webhook.routes)


def _matrix(matrix: MatrixSpec, *, token: bool) -> Check:
    server = matrix.homeserver.rstrip("/")
    if not token:
        return Check(
            "connectors.matrix",
            Request("GET", f"{server}/_matrix/client/versions"),
            lambda answer: _answers(answer, server, "is a homeserver; MATRIX_PASSWORD was not tried"),
            "check that connectors.matrix.homeserver is the address of a homeserver",
        )

    def judge(answer: Answer) -> Verdict:
        user = answer.body.get("user_id") if isinstance(answer.body, dict) else None
        if answer.status == 200 and matrix.user_id and user != matrix.user_id:
            return Verdict(False, f"MATRIX_ACCESS_TOKEN belongs to {one_line(str(user), 300)}, not to {matrix.user_id}")
        return _answers(answer, server, f"accepts MATRIX_ACCESS_TOKEN as {one_line(str(user), 300)}")

    request = Request("GET", f"{server}/_matrix/client/v3/account/whoami", "MATRIX_ACCESS_TOKEN")
    return Check("connectors.matrix", request, judge, "check connectors.matrix and the secret MATRIX_ACCESS_TOKEN")


def _ntfy(ntfy: NtfySpec, token: str | None) -> Check:
    # Hermes reports ntfy as connected before it has asked the server. A poll ends at once.
    server = ntfy.server.rstrip("/")
    request = Request("GET", f"{server}/{ntfy.topic}/json?poll=1&since=1s", token, login=True)
    with_token = f" with {token}" if token else ""
    return Check(
        "connectors.ntfy",
        request,
        lambda answer: _answers(answer, server, f"lets the agent read its topic{with_token}; no answer was published"),
        "check connectors.ntfy and the secret NTFY_TOKEN; the server's log tells more",
    )


def _with_token(name: str, url: str, path: str, token: str) -> Check:
    server = url.rstrip("/")
    return Check(
        f"connectors.{name}",
        Request("GET", f"{server}{path}", token),
        lambda answer: _answers(answer, server, f"accepts {token}"),
        f"check the address of the server and the secret {token}",
    )


def _answers(answer: Answer, server: str, proved: str) -> Verdict:
    if answer.status == 200:
        return Verdict(True, f"{server} {proved}")
    refused = "refuses the agent: it " if answer.status in _REFUSED else ""
    return Verdict(False, f"{server} {refused}answers {answer.status}, whatever Hermes reports")


def _webhook(url: str, route: str) -> Check:
    """Check that a route is there and does not accept a message without a signature."""

    def judge(answer: Answer) -> Verdict:
        if answer.status in _REFUSED:
            return Verdict(True, f"/webhooks/{route} refuses a message without a signature; a signed one was not sent")
        return Verdict(False, f"/webhooks/{route} answered {answer.status} to a message without a signature, not 401")

    return Check(
        f"connectors.webhook.{route}",
        Request("POST", f"{url}/webhooks/{route}", body=()),  # a list fails even where no signature is needed
        judge,
        "its secret may be INSECURE_NO_AUTH, or another program listens there; write a random secret and run `up`",
        settles=True,
    )
