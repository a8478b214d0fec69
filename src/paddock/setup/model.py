"""Questions about the model: who serves it, its key and its name. It has to answer once."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from paddock.base.errors import BadInput, PaddockError
from paddock.base.frozen import frozen
from paddock.base.secret import Secret
from paddock.base.text import one_line
from paddock.kinds.hermes.providers import named
from paddock.setup import keys
from paddock.setup.answers import Model, OnHost, OnNode
from paddock.setup.keys import Vault
from paddock.setup.questions import Choice, Conversation, EarlierAnswer, Question
from paddock.setup.trial import KeyRefused, Tried, try_model

OWN: Final = "models"  # the name of a server that the person runs, in the settings
_OWN_VARIABLE: Final = "MODEL_API_KEY"
_LISTED: Final = 9
PROVIDER: Final = Question(
    "--provider",
    "Provider of the model",
    "Who serves the model? A provider, or the URL of an OpenAI-compatible server",
    choices=[Choice(each.name) for each in named()],
    others="URL",
)
KEY: Final = Question("--model-key-file", "Key of the model", "API key of the model (not shown)", secret=True)
KEY_VARIABLE: Final = Question("--model-key-env", "Key of the model", "Environment variable with the key")


@frozen
class _Server:
    """A model server: its URL, and its answer without a key."""

    provider: str
    url: str | None  # None: it has a protocol of its own, so a model cannot be tried
    variable: str
    own: bool
    open: Tried | None = None  # its models without a key; None if it needs a key


def ask_model(talk: Conversation, secrets: Vault, place: OnNode | OnHost) -> Model:
    """Ask for a model until one answers."""
    server: _Server | None = None
    while True:
        server = server or talk.ask(PROVIDER, lambda answer: _server(answer, place))
        key, source = (None, None) if server.open else _key(talk)
        try:
            name = _name(talk, server, key, server.open or _offered(talk, server, key))
        except EarlierAnswer as error:
            talk.reject(error)
            server = None if error.question is PROVIDER else server
            continue
        if key is not None and source is None:
            source = secrets.keep(server.variable, key)
        talk.tell(f"The model {name} answers." if server.url else f"{server.provider} was not asked; `up` will do it.")
        url = server.url if server.own else None
        return Model(server.provider, name, url, server.variable if key else None, source)


def _server(answer: str, place: OnNode | OnHost) -> _Server:
    known = next((each for each in named() if each.name == answer), None)
    if known is not None:
        return _Server(known.name, known.base_url, known.key_env, own=False)
    url = answer.rstrip("/")
    if "://" not in url:
        names = ", ".join(each.name for each in named())
        raise BadInput(f"{one_line(answer, 100)} is not a URL, and none of {names}")
    here = isinstance(place, OnHost) and place.address is None
    if _is_loopback(url) and not here:
        raise BadInput(
            f"only this computer can reach {one_line(url, 100)}, and the agent runs on another machine",
            hint="write the address that other machines use for this computer",
        )
    return _found(url)


def _is_loopback(url: str) -> bool:
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _found(url: str) -> _Server:
    """Return the server at a URL, or at the same URL with /v1."""
    first: PaddockError | None = None
    longer = url if url.endswith("/v1") else f"{url}/v1"
    # Without a path it is hardly the URL of an API, but such a server may ask for a key first.
    for each in (url, longer) if urlsplit(url).path else (longer, url):
        try:
            return _Server(OWN, each, _OWN_VARIABLE, own=True, open=try_model(each, None, None))
        except KeyRefused:
            return _Server(OWN, each, _OWN_VARIABLE, own=True)
        except PaddockError as error:
            first = first or error
    raise first or BadInput(f"{url} does not answer")


def _offered(talk: Conversation, server: _Server, key: Secret | None) -> Tried:
    try:
        return try_model(server.url, key, None) if server.url else Tried(())
    except KeyRefused as refused:
        raise EarlierAnswer(_key_question(talk), refused) from None
    except PaddockError as error:
        raise EarlierAnswer(PROVIDER, error) from None


def _key_question(talk: Conversation) -> Question:
    return KEY_VARIABLE if KEY_VARIABLE.flag in talk.given else KEY


def _key(talk: Conversation) -> tuple[Secret, str | None]:
    """Return the key and, if it is not to be kept in the age file, its source."""
    if KEY_VARIABLE.flag in talk.given:
        variable = talk.given[KEY_VARIABLE.flag]
        return talk.ask(KEY_VARIABLE, keys.from_environment), f"{{env: {variable}}}"
    if KEY.flag in talk.given:
        return talk.ask(KEY, keys.from_file), None
    return talk.ask(KEY, _typed), None


def _typed(answer: str) -> Secret:
    if not answer.isascii() or not answer.isprintable() or " " in answer:
        raise BadInput("the key has characters that no key has", hint="paste it again")
    return Secret(answer)


def _name(talk: Conversation, server: _Server, key: Secret | None, offered: Tried) -> str:
    """Return the name of a model that has answered."""
    shown = offered.models[:_LISTED]
    more = len(offered.models) > len(shown)
    text = f"Model ({len(offered.models)} are offered)" if more else "Model"
    choices: Sequence[Choice] = [] if more else [Choice(name) for name in shown]
    default = shown[0] if choices else None
    question = Question("--model", "Model", text, default, choices, others="" if choices else "another")

    def answered(name: str) -> str:
        if server.url and offered.answered != name:
            try:
                try_model(server.url, key, name)
            except KeyRefused as refused:
                raise EarlierAnswer(_key_question(talk), refused) from None
        return name

    return talk.choose(question, answered)
