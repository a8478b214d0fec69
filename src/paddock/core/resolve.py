"""Resolving an agent: paths, addresses and secrets are read once per run, into one frozen value."""

from __future__ import annotations

import hashlib
import ipaddress
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from paddock.backups.contract import Destination
from paddock.backups.folder import FolderDestination
from paddock.backups.open import destination_for
from paddock.base.computer import state_folder
from paddock.base.errors import BadInput, PaddockError
from paddock.base.frozen import frozen
from paddock.base.secret import Secret
from paddock.core.container import TemplateContents
from paddock.core.deployment import Deployment
from paddock.file.models.whole import AgentSpec, RuntimeName
from paddock.file.secrets.sources import resolve as resolve_secrets
from paddock.kinds.code import CodeTree
from paddock.kinds.endpoints import ModelServer, Offer
from paddock.kinds.workload import Paths, Probes, Workload
from paddock.onboard.configure import Sent
from paddock.places.contract import CacheWant, MachineWant
from paddock.plan.agent import AgentWant
from paddock.plan.container import ContainerWant
from paddock.plan.version import IMAGE
from paddock.runtimes import egress
from paddock.runtimes.bundle import Bundle, secret_name, secrets_digest
from paddock.runtimes.contract import Isolation, Runtime
from paddock.runtimes.open import runtime_for
from paddock.runtimes.systemd import confine


@frozen
class Asked:
    """Changes that a person asks for beyond the file."""

    restart: bool = False
    recreate: bool = False  # a new container
    pull: bool = False  # another pull of its image, and a new container if that is another one then

    def of_container(self, want: ContainerWant, *, pulled: bool) -> ContainerWant:
        """Return the wanted container with these changes."""
        return replace(want, recreate=self.recreate, pull=self.pull and not pulled, renew=self.pull)


NOTHING_MORE: Final = Asked()


@dataclass(frozen=True, kw_only=True)
class Located(Deployment):
    """An agent whose paths and machine are known. This is enough to observe it, to remove it and to enter it."""

    runtime: Runtime
    contents: TemplateContents
    machine_want: MachineWant
    code: tuple[str, CodeTree] | None  # with its name on the machine; None if packages or an image bring the code
    without_root: bool  # an account without root supervises the agent

    @property
    def paths(self) -> Paths:
        return self.runtime.paths

    @property
    def version(self) -> str:
        """The version of its code, or its image; empty if Debian packages bring the code."""
        if self.code:
            found = self.code[1].distribution
            return f"{found.version} from a package" if found.local else found.version
        container = self.runtime.container
        return f"{IMAGE}{container.image.name}" if container and container.brings_code else ""

    @property
    def distribution(self) -> str:
        """The package that brings its code, as the files of packages are named; empty without one."""
        return self.code[1].distribution.name.replace("-", "_") if self.code else ""

    @property
    def account(self) -> str:
        """The name of its account; empty if it has the rights of the account that supervises it."""
        return self.spec.user.name if Isolation.ACCOUNT in self.runtime.confines else ""

    @property
    def limits_units(self) -> bool:
        """Whether the agent's units have limits: they share a host with others."""
        return self.place.traits.keeps_machine and self.spec.runtime is RuntimeName.SYSTEMD

    @property
    def packages(self) -> list[str]:
        """The packages that the agent needs on its machine."""
        return [*self.contents.packages, *self.contents.added]

    @property
    def programs(self) -> list[str]:
        """The programs of packages and code that the agent's processes start."""
        if self.runtime.container:
            return []  # the programs are in the container
        programs = dict.fromkeys(process.argv[0] for process in self.workload_of(self.spec).processes)
        return [each for each in programs if "/" not in each or each.startswith(f"{self.paths.code}/")]

    def workload_of(self, spec: AgentSpec) -> Workload:
        """Return the workload of the agent with this specification."""
        inside = self.runtime.inside
        return self.recipe.workload(spec, inside, f"{inside.code}/{self.code[0]}" if self.code else "")

    def probes(self, prompt: str) -> Probes:
        """Return the requests that show whether the agent is healthy and answers this prompt."""
        return self.recipe.probes(self.spec, prompt, conversation=f"paddock-{uuid.uuid4()}")


@frozen
class Secrets:
    """The values of an agent's secrets, in its environment and in files."""

    environment: Mapping[str, Secret] = field(default_factory=dict)
    files: Mapping[str, Secret] = field(default_factory=dict)
    digest: str = ""


@frozen
class SecretsMissing:
    """Secrets that could not be read. Verbs that only look do without them."""

    error: BadInput


@dataclass(frozen=True, kw_only=True)
class Resolved(Located):
    """An agent with everything that decides its configuration."""

    configured: AgentSpec  # the specification, with the model gateway filled in
    workload: Workload
    bundle: Bundle
    secrets: Secrets | SecretsMissing

    @property
    def known_secrets(self) -> Secrets:
        """The secrets; raises the error that they could not be read with."""
        if isinstance(self.secrets, SecretsMissing):
            raise self.secrets.error
        return self.secrets

    def sent(self, *, whole: bool = False) -> Sent:
        """Return the bundle with its secrets, as the machine receives it. ``whole`` refuses the state of a copy."""
        secrets, facts = self.known_secrets, {"version": self.version, "distribution": self.distribution}
        return self.bundle.sent(secrets.environment, secrets.files, **facts, whole=whole)

    def want(self, asked: Asked = NOTHING_MORE, *, pulled: bool = False) -> AgentWant:
        """Return what planning compares with the machine. ``pulled`` says that the image was pulled already."""
        container = self._container_want()
        keeps_machine = self.place.traits.keeps_machine
        return AgentWant(
            tree=self.code[0] if self.code else None,
            bundle_id=self.bundle.id,
            secrets=self.known_secrets.digest,
            foreground=self.runtime.foreground,
            packages=frozenset(self.packages),
            added=frozenset(self.contents.added),
            optional=frozenset(self.contents.optional),
            init=self.runtime.init,
            state=self.paths.state if keeps_machine else "",
            container=asked.of_container(container, pulled=pulled) if container else None,
            mounts=[mount.path for mount in self.spec.mounts],
            uid=self.spec.user.uid,
            account=self._account,
            project=self.project,
            beside_others=self.beside_others,
            incoming=self.incoming.name if self.incoming else None,
            restart=asked.restart,
            version=self.version,
            saves_to=destination_of_states(self).shown if self.version or self._saves_replaced else "",
            saves_replaced=self._saves_replaced,
            limits=confine.in_words(self.spec.machine) if self.limits_units else "",
            stand_in=self.stand_in is not None,
        )

    @property
    def _saves_replaced(self) -> bool:
        """Whether a state is saved before the incoming one takes its place. A copy and an import never replace one."""
        return self.incoming is not None and not (self.incoming.discards or self.incoming.origin or self.copy_of)

    @property
    def _account(self) -> str:
        """The account that Paddock creates on the machine; empty if it creates none."""
        creates = self.spec.user.create and not (self.without_root or self.runtime.foreground)
        return self.spec.user.described if creates else ""

    def _container_want(self) -> ContainerWant | None:
        container = self.runtime.container
        if container is None:
            return None
        has_data_volume = self.spec.container.data is not None
        return ContainerWant(
            engine=container.engine.program,
            service=container.engine.service,
            install=bool(container.engine.packages),
            image=container.image.name,
            archive=container.image.archive is not None,
            identity=container.identity(self.workload),
            data=None if self.place.traits.keeps_machine else has_data_volume,
            without_root=self.without_root,
            name=container.name,
            packages=container.packages,
        )


def locate(agent: Deployment) -> Located:
    """Ask the place for the supervising account; return the agent with its paths and its machine."""
    keeps_machine, home = agent.place.traits.keeps_machine, agent.place.account_home()
    spec = _on_its_machine(agent.spec, keeps_machine=keeps_machine)
    # Beside others of its name, an agent takes nothing over.
    formers = () if agent.beside_others else agent.formers
    runtime = runtime_for(agent.id, spec, agent.folder, home, formers)
    tree = None if agent.spec.image_brings_code else agent.recipe.code(agent.spec, agent.folder)
    contents = _contents(agent, runtime, tree, without_root=home is not None)
    templates = agent.place.templates
    template = templates.want(str(agent.spec.kind), contents.id, agent.spec.machine) if templates else None
    size, container = agent.spec.container.data, runtime.container
    cache = CacheWant(container.engine.data, size) if size and container else None
    return Located(
        **_fields(agent, Deployment),
        runtime=runtime,
        contents=contents,
        machine_want=MachineWant(
            agent.id,
            agent.spec,
            runtime.paths.state,
            template,
            cache,
            formers=agent.formers,
            beside_others=agent.beside_others,
            throwaway=agent.throwaway,
        ),
        code=_code(runtime, tree),
        without_root=home is not None,
    )


def _code(runtime: Runtime, tree: CodeTree | None) -> tuple[str, CodeTree] | None:
    container = runtime.container
    if tree is None:
        return None
    return container.tree(tree) if container else tree.id, tree


def resolve(agent: Located) -> Resolved:
    """Read the address of the model gateway and the secrets; return the agent with its complete configuration.

    Raises ``GatewayUnknown`` while the model gateway has no address.
    """
    gateway = locate(agent.model_gateway) if agent.model_gateway else None
    server = gateway_server(gateway, agent) if gateway else None
    configured = agent.recipe.using(agent.spec, server) if server else agent.spec
    workload = agent.workload_of(configured)
    tree = agent.code[0] if agent.code else None
    mounted, health = agent.place.traits.mounts_state, agent.probes("").health
    bundle = agent.runtime.bundle(workload, tree, mounted=mounted, health=health, neighbours=agent.neighbours)
    return Resolved(
        **_fields(agent, Located),
        configured=configured,
        workload=workload,
        bundle=bundle.with_people(agent.place.login_keys()),
        secrets=_secrets(agent, workload, gateway, server),
    )


def _secrets(
    agent: Located, workload: Workload, gateway: Located | None, server: ModelServer | None
) -> Secrets | SecretsMissing:
    try:
        environment = resolve_secrets(agent.spec.secrets, agent.folder, agent.spec.environment_files)
        if gateway and server:
            keys = resolve_secrets(gateway.spec.secrets, gateway.folder, gateway.spec.environment_files)
            environment = {server.key: keys[offer_of(gateway).key], **environment}
        files = {secret_name(workload, file): file.source.content(agent.folder) for file in workload.secret_files}
    except BadInput as error:
        return SecretsMissing(error)
    # A file that is written only once does not count: its source may change later.
    lasting = {secret_name(workload, file) for file in workload.secret_files if file.overwrite}
    digest = secrets_digest(environment, {name: content for name, content in files.items() if name in lasting})
    return Secrets(environment, files, digest)


def _contents(agent: Deployment, runtime: Runtime, tree: CodeTree | None, *, without_root: bool) -> TemplateContents:
    filters = [egress.PACKAGE] if agent.spec.network.closed else []
    # A copy is made from the template of its agent, whose connections may be open.
    added: tuple[str, ...] = ()
    if agent.copy_of and not agent.copy_of.spec.network.closed:
        added, filters = tuple(filters), []
    if container := runtime.container:
        # The agent's own packages and code are for its container, which no template holds.
        return TemplateContents((*container.engine.packages, *filters), None, added)
    packages = [*agent.recipe.packages(agent.spec), *filters]
    # Without root no package can be installed, and the agent works without the recommended ones.
    recommended = () if runtime.foreground or without_root else agent.recipe.recommended_packages(agent.spec)
    optional = [package for package in recommended if package not in packages]
    return TemplateContents(tuple(dict.fromkeys([*packages, *optional])), tree, added, optional)


def _on_its_machine(spec: AgentSpec, *, keeps_machine: bool) -> AgentSpec:
    """Return the agent as its machine sees it: a machine made for it mounts directories where the agent sees them."""
    if keeps_machine:
        return spec
    return spec.model_copy(update={"mounts": [mount.model_copy(update={"host": mount.path}) for mount in spec.mounts]})


def _fields(agent: Deployment, kind: type[Deployment]) -> dict[str, Any]:
    return {each.name: getattr(agent, each.name) for each in fields(kind)}


_HERE: Final = "local"  # the address of the machine that Paddock itself runs on


class GatewayUnknown(PaddockError):
    """The model gateway has no address yet."""


def offer_of(gateway: Located) -> Offer:
    """Return the models and the port that the model gateway offers to other agents."""
    offer = gateway.recipe.offer(gateway.spec)
    if offer is None:
        raise AssertionError("the loader accepts no other kind as a model gateway")
    return offer


def gateway_server(gateway: Located, user: Located) -> ModelServer:
    """Return the model gateway as another agent reaches it; reads its address if the file does not state it."""
    offer = offer_of(gateway)
    if same_machine(gateway, user):
        return ModelServer(gateway.name, gateway.spec.url(offer.port) + offer.path)
    host = stated_host(gateway.spec, offer) or _seen_host(gateway)
    if host is None:
        raise GatewayUnknown(
            f"{gateway.name}, the model gateway of {user.name}, has no address yet",
            hint=f"run `paddock up --only {gateway.name}` first; an `up` of both does that",
        )
    return ModelServer(gateway.name, f"http://{host}:{gateway.spec.ports()[offer.port]}{offer.path}")


def same_machine(one: Located, other: Located) -> bool:
    """Whether both are on one host, so that they share its loopback."""
    if not (one.place.traits.keeps_machine and other.place.traits.keeps_machine):
        return False
    return _address(one) == _address(other)


def stated_host(spec: AgentSpec, offer: Offer) -> str | None:
    """Return the address that the file states, in the form of a URL: the exposed one, or the machine's own."""
    exposed = ipaddress.ip_address(spec.listens_on(offer.port))
    if not exposed.is_unspecified:
        return f"[{exposed}]" if exposed.version == 6 else str(exposed)
    card = spec.machine.net.address
    return None if card == "dhcp" else card.partition("/")[0]


def _seen_host(gateway: Located) -> str | None:
    address = _address(gateway)
    return None if address == _HERE else address


def _address(agent: Located) -> str | None:
    seen = agent.place.observed(agent.machine_want) or agent.place.observe(agent.machine_want)
    return agent.place.machine(agent.machine_want, seen).address


def destination_of_states(agent: Deployment) -> Destination:
    """Return the destination of the agent's backups, or Paddock's own folder if that keeps no streams."""
    return next(destinations_of_states(agent))


def destinations_of_states(agent: Deployment) -> Iterator[Destination]:
    """Yield the destinations that may have saved states of an agent: the file may have named none before."""
    if agent.spec.backup and keeps_streams(agent):
        yield destination_for(agent.spec.backup, agent.folder, agent.id, agent.reporter.say)
    identity = hashlib.sha256(f"{agent.place.traits.identity} {agent.id}".encode()).hexdigest()[:8]
    yield FolderDestination(state_folder() / "upgrades" / f"{agent.id}-{identity}", ())


def keeps_streams(agent: Deployment) -> bool:
    """Return whether the file names a destination that a state can be streamed to."""
    return agent.spec.backup is not None and agent.spec.backup.to.proxmox is None
