"""What the file says of one agent, put together from its recipe, its runtime and its place."""

from __future__ import annotations

import uuid
from functools import cached_property
from typing import Any

from paddock.places import CacheWant, MachineWant, Place
from paddock.plan.agent import AgentWant
from paddock.plan.container import ContainerWant
from paddock.recipes import recipe_for
from paddock.recipes.model_gateway import ModelServer
from paddock.recipes.workload import CodeTree, Distribution, Paths, Probes, Workload
from paddock.run import gateway as gateways
from paddock.run.contents import TemplateContents
from paddock.run.reporter import Reporter
from paddock.runtimes import Runtime, runtime_for
from paddock.runtimes.bundle import Bundle, secrets_digest
from paddock.runtimes.statefiles import secret_name
from paddock.secret import Secret
from paddock.spec.files import inlined
from paddock.spec.load import Loaded
from paddock.spec.models import AgentSpec
from paddock.spec.secrets import resolve


class Wanted:
    """One agent in its place, as the file has it."""

    def __init__(
        self, name: str, loaded: Loaded, place: Place[Any], reporter: Reporter, gateway: Wanted | None = None
    ) -> None:
        self.name = name
        self.gateway = gateway  # the agent that gives it models
        self.recreate = False  # whether a person wants another container, whatever its identity
        self.looked = (
            False  # whether this run, or a person, looked for its files on a root disk that Paddock did not make
        )
        self.unverified = False  # whether this run changed something since the agent was last seen to work
        self.spec = inlined(loaded.spec.agents[name], loaded.folder)
        self.place = place
        self.reporter = reporter.of(name)
        self.recipe = recipe_for(self.spec.kind)
        self.folder = loaded.folder

    @cached_property
    def runtime(self) -> Runtime:
        return runtime_for(self.name, _on_its_machine(self.spec, self.place), self.folder, self.place.account_home)

    @property
    def where(self) -> str:
        """Its place, and the node where the file names another one."""
        node = self.spec.machine.node
        return f"{self.spec.place} ({node})" if node else self.spec.place

    @property
    def paths(self) -> Paths:
        return self.runtime.paths

    @property
    def distribution(self) -> Distribution | None:
        return self.recipe.distribution(self.spec, self.folder)

    @cached_property
    def contents(self) -> TemplateContents:
        if container := self.runtime.container:
            # The agent's own packages and code are for its container, which no template has.
            return TemplateContents(tuple(container.packages), None)
        # Without root nothing can be installed, and what the agent only likes to have is no reason to stop.
        without_root = self.runtime.foreground or self.place.account_home is not None
        recommended_packages = () if without_root else self.recipe.recommended_packages(self.spec)
        packages = dict.fromkeys([*self.recipe.packages(self.spec), *recommended_packages])
        return TemplateContents(tuple(packages), self.recipe.code(self.spec, self.folder))

    @cached_property
    def code(self) -> tuple[str, CodeTree] | None:
        """The code tree, by its name on the machine; None where packages or an image bring the code."""
        container = self.runtime.container
        if container and container.brings_code:
            return None
        tree = self.recipe.code(self.spec, self.folder)
        return (container.tree(tree) if container else tree.id, tree) if tree else None

    @cached_property
    def machine_want(self) -> MachineWant:
        template = self.place.template(str(self.spec.kind), self.contents.id, self.spec.machine)
        size, container = self.spec.container.data, self.runtime.container
        cache = CacheWant(container.data, size) if size and container else None
        return MachineWant(self.name, self.spec, self.paths.state, template, cache)

    @cached_property
    def model_server(self) -> ModelServer | None:
        """The agent that gives it models, as this one reaches it."""
        return gateways.server(self.gateway, self) if self.gateway else None

    @property
    def configured(self) -> AgentSpec:
        """The agent with what the file leaves to another one to say."""
        return self.recipe.using(self.spec, self.model_server) if self.model_server else self.spec

    @cached_property
    def workload(self) -> Workload:
        paths = self.runtime.inside
        return self.recipe.workload(self.configured, paths, f"{paths.code}/{self.code[0]}" if self.code else "")

    @cached_property
    def bundle(self) -> Bundle:
        tree = self.code[0] if self.code else None
        bundle = self.runtime.bundle(self.workload, tree, mounted=self.place.mounts_state)
        return bundle.with_people(self.place.people)

    @property
    def programs(self) -> list[str]:
        """What packages and code bring and the agent's processes begin with."""
        if self.runtime.container:
            return []  # they are in its container
        programs = dict.fromkeys(process.argv[0] for process in self.workload.processes)
        return [each for each in programs if "/" not in each or each.startswith(f"{self.paths.code}/")]

    @cached_property
    def secrets(self) -> dict[str, Secret]:
        own = resolve(self.spec.secrets, self.folder, self.spec.environment_files)
        if self.gateway is None or self.model_server is None:
            return own
        return {self.model_server.key: self.gateway.secrets[gateways.offer_of(self.gateway).key], **own}

    @cached_property
    def secret_files(self) -> dict[str, Secret]:
        return {
            secret_name(self.workload, file): file.source.content(self.folder) for file in self.workload.secret_files
        }

    @property
    def _lasting_secret_files(self) -> dict[str, Secret]:
        """Without those that are written once: what becomes of their source later does not matter."""
        lasting = {secret_name(self.workload, file) for file in self.workload.secret_files if file.overwrite}
        return {name: content for name, content in self.secret_files.items() if name in lasting}

    @property
    def want(self) -> AgentWant:
        return AgentWant(
            tree=self.code[0] if self.code else None,
            bundle_id=self.bundle.id,
            secrets=secrets_digest(self.secrets, self._lasting_secret_files),
            foreground=self.runtime.foreground,
            packages=frozenset(self.contents.packages),
            init=self.runtime.init,
            state=self.paths.state if self.place.keeps_machine else "",
            container=self.container_want,
        )

    @property
    def container_want(self) -> ContainerWant | None:
        container = self.runtime.container
        if container is None:
            return None
        return ContainerWant(
            engine=container.engine,
            service=container.service,
            install=bool(container.packages),
            image=container.image.name,
            archive=container.image.archive is not None,
            identity=container.identity(self.workload),
            data=None if self.place.keeps_machine else self.spec.container.data is not None,
            recreate=self.recreate,
            without_root=self.place.account_home is not None,
        )

    def probes(self, prompt: str) -> Probes:
        """How to see that it lives, and that it answers this prompt."""
        return self.recipe.probes(self.spec, prompt, conversation=f"paddock-{uuid.uuid4()}")


def _on_its_machine(spec: AgentSpec, place: Place[Any]) -> AgentSpec:
    """The agent as its machine has it: one that was made for it has its directories where the agent sees them."""
    if place.keeps_machine:
        return spec
    return spec.model_copy(update={"mounts": [mount.model_copy(update={"host": mount.path}) for mount in spec.mounts]})
