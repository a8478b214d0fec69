"""The requests that show whether Hermes is healthy, and whether it answers."""

from __future__ import annotations

from paddock.frozen import frozen
from paddock.recipes.hermes.spec import API_KEY, HermesSpec
from paddock.recipes.workload import Answer, Page, Probes, Request, Verdict


def probes(agent: HermesSpec, prompt: str, conversation: str) -> Probes:
    """Return the health probe, and a prompt in a conversation of this name."""
    url = agent.url("api_server")
    model = agent.connectors.api_server.model_name or "hermes-agent"
    return Probes(
        health=_Health(f"{url}/health", values=(("status", "ok"),)), prompt=_Prompt(url, model, prompt, conversation)
    )


@frozen
class _Health(Page):
    """The API server answers. This says nothing about the model behind it."""

    @property
    def request(self) -> Request:
        return Request("GET", self.url, seconds=3)

    def judge(self, answer: Answer) -> Verdict:
        found = answer.body if isinstance(answer.body, dict) else {}
        return Verdict(
            super().judge(answer).ok, f"/health answered {answer.status}", version=str(found.get("version", ""))
        )


@frozen
class _Prompt:
    """The agent answers a prompt with its model."""

    url: str
    model: str
    text: str
    conversation: str

    @property
    def request(self) -> Request:
        message = {"role": "user", "content": self.text}
        body = {"model": self.model, "messages": [message], "stream": False}
        # Hermes keeps the system prompt, with the memory, from the start of a session. Without a session id, equal
        # prompts belong to one session.
        headers = {"X-Hermes-Session-Id": self.conversation}
        return Request("POST", f"{self.url}/v1/chat/completions", API_KEY, headers, body, seconds=120)

    def judge(self, answer: Answer) -> Verdict:
        # An error of the model has status 200 too; `finish_reason` and the key `hermes` show it.
        try:
            choice = answer.body["choices"][0]
            text, reason = str(choice["message"]["content"]), choice["finish_reason"]
        except (KeyError, IndexError, TypeError):
            return Verdict(False, f"the API answered {answer.status}: {answer.body}")
        if reason == "error":
            return Verdict(False, f"its model failed: {text}")
        ok = answer.status == 200 and reason == "stop" and "hermes" not in answer.body and bool(text.strip())
        return Verdict(ok, text)
