"""The keys of an agent's MCP servers."""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from paddock.spec.durations import Duration
from paddock.spec.fields import AbsolutePath, Model, Port, Url, no_items, no_keys, worded

# Hermes writes the name into its log and into the names of the tools.
ServerName = Annotated[
    str,
    Field(
        pattern=worded(
            r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$",
            "a name: at most 64 letters, digits, _ . and -, beginning with a letter, a digit or _",
        )
    ),
]

_OF_A_URL: Final = (
    *("headers", "transport", "auth", "oauth", "ssl_verify", "ca_file", "client_cert", "client_key"),
    *("client_key_password", "skip_preflight"),
)
_OF_A_PROGRAM: Final = ("args", "env", "idle_timeout", "max_lifetime")


class ToolChoice(Model):
    """The tools of an MCP server that the agent may use."""

    include: list[str] = Field(default_factory=no_items, description="only these")
    exclude: list[str] = Field(default_factory=no_items, description="all but these")
    resources: bool = Field(True, description="whether the agent gets tools that list and read the server's resources")
    prompts: bool = Field(True, description="whether the agent gets tools that list and read the server's prompts")


class OAuthSpec(Model):
    """How the agent registers with an MCP server; its tokens are in the state."""

    client_id: str | None = Field(None, description="id of a client that is registered already")
    client_secret: str | None = Field(None, description="secret of that client: ${NAME} of a secret")
    client_name: str | None = Field(None, description="name to register with")
    scope: str | None = Field(None, description="scopes to ask for, separated by blanks")
    redirect_uri: Url | None = Field(None, description="address that the login page returns to")
    redirect_host: str | None = Field(None, description="host of that address; without it 127.0.0.1")
    redirect_port: Port | None = Field(None, description="port of that address; without it any free one")
    timeout: Duration | None = Field(None, description="how long a login may take")


class SamplingSpec(Model):
    """Requests of the server to the agent's model."""

    enabled: bool = Field(True, description="whether the server may ask the model")
    model: str | None = Field(None, description="model for these requests, instead of the agent's")
    allowed_models: list[str] = Field(default_factory=no_items, description="models that the server may ask for")
    max_tokens_cap: int | None = Field(None, ge=1, description="longest answer, in tokens")
    max_tool_rounds: int | None = Field(None, ge=0, description="calls of tools in one request; 0: none")
    max_rpm: int | None = Field(None, ge=1, description="requests a minute")
    timeout: Duration | None = Field(None, description="timeout of one request")
    log_level: Literal["debug", "info", "warning"] | None = Field(None, description="level of its lines in the log")


class ElicitationSpec(Model):
    """Questions of the server to the person who talks to the agent."""

    enabled: bool = Field(True, description="whether the server may ask")
    timeout: Duration | None = Field(None, description="how long the agent waits for an answer")


class McpServerSpec(Model):
    """An MCP server: a program on the agent's machine, or a URL."""

    command: str | None = Field(
        None, description="program to start; Paddock brings node, npm, npx, uv and uvx if a server needs them"
    )
    args: list[str] = Field(default_factory=no_items, description="arguments of the program")
    env: dict[str, str] = Field(
        default_factory=no_keys, description="environment of the program; ${NAME} is replaced by a secret's value"
    )
    idle_timeout: Duration | None = Field(None, description="how long an unused program runs; it is started again")
    max_lifetime: Duration | None = Field(None, description="how long a program runs before it is started again")
    url: Url | None = Field(None, description="URL of the server, instead of a program")
    transport: Literal["http", "sse"] = Field("http", description="protocol of the URL: http (streamable), or sse")
    headers: dict[str, str] = Field(
        default_factory=no_keys, description="HTTP headers; ${NAME} is replaced by a secret's value"
    )
    auth: Literal["oauth"] | None = Field(None, description="oauth: a person logs in with `hermes mcp login NAME`")
    oauth: OAuthSpec | None = Field(None, description="how the agent registers with the server, with auth: oauth")
    ssl_verify: bool = Field(True, description="whether the server's certificate is verified")
    ca_file: AbsolutePath | None = Field(None, description="file on the agent's machine with the server's authorities")
    client_cert: AbsolutePath | None = Field(None, description="certificate on the agent's machine to identify with")
    client_key: AbsolutePath | None = Field(None, description="its key, if that is in another file")
    client_key_password: str | None = Field(None, description="the key's password: ${NAME} of a secret")
    skip_preflight: bool = Field(False, description="whether to skip the test whether the URL is an MCP server")
    enabled: bool = Field(True, description="whether the agent uses the server")
    timeout: Duration | None = Field(None, description="timeout of one call")
    connect_timeout: Duration | None = Field(
        None, description="timeout of the connection; the agent starts after it, if the server does not answer"
    )
    keepalive_interval: Duration | None = Field(None, description="how often the connection is tested; at least 5s")
    supports_parallel_tool_calls: bool = Field(False, description="whether its tools may be called at the same time")
    tools: ToolChoice = Field(ToolChoice.model_construct(), description="which tools of the server the agent may use")
    sampling: SamplingSpec = Field(
        SamplingSpec.model_construct(), description="requests of the server to the agent's model"
    )
    elicitation: ElicitationSpec = Field(
        ElicitationSpec.model_construct(), description="questions of the server to the person"
    )

    @model_validator(mode="after")
    def _program_or_url(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("an MCP server needs either command: (a program) or url:")
        of_others, needed = (_OF_A_URL, "url") if self.url is None else (_OF_A_PROGRAM, "command")
        if given := [key for key in of_others if key in self.model_fields_set]:
            raise ValueError(f"{' and '.join(given)} {'needs' if len(given) == 1 else 'need'} {needed}:")
        return self

    @model_validator(mode="after")
    def _parts_go_together(self) -> Self:
        if self.oauth and not self.auth:
            raise ValueError("oauth needs auth: oauth")
        if self.client_key and not self.client_cert:
            raise ValueError("client_key needs client_cert:")
        if self.client_key_password and not self.client_key:
            raise ValueError("client_key_password needs client_key:")
        if self.ca_file and not self.ssl_verify:
            raise ValueError("ca_file and ssl_verify: false contradict each other; keep one")
        if self.keepalive_interval is not None and self.keepalive_interval < 5:
            raise ValueError("keepalive_interval must be at least 5s")
        return self
