"""Parts of the gateway that a plugin provides: channels, models, searches, the memory."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, overload

from skerry.model.errors import PluginError
from skerry.ports.channel import ChannelAdapter
from skerry.ports.model import ModelInfo, ModelProvider
from skerry.providers.model_apis import ModelApi
from skerry.sdk.embedding import EmbeddingProvider
from skerry.sdk.memory import SlotMemory
from skerry.sdk.registrations import ProvidedModels, Registered
from skerry.sdk.search import SearchProvider


class Provides:
    """Base of `PluginApi`: the registrations, and those that provide a part of the gateway."""

    def __init__(self, plugin: str, *, allow_prompt: bool = True) -> None:
        self.plugin = plugin
        self._allow_prompt = allow_prompt
        self._registered = Registered()
        self._sealed = False

    def register_skill_dir(self, folder: Path) -> None:
        """Offers the skills in a folder of the plugin: folders with a SKILL.md, or one itself.

        The system prompt lists those whose requirements this machine meets by name, description
        and path; the model reads one with `read` when it needs it. The manifest may name such
        folders too, as `skills`.

        Raises:
            PluginError: the configuration does not allow it, or `register` has returned. A folder
                that is missing, or beside that of the plugin, fails when the plugin is loaded.
        """
        self._check_open()
        if not self._allow_prompt:
            raise PluginError(
                "It registers skills, which are listed in the prompt.",
                f"Allow it with plugins.entries.{self.plugin}.hooks.allowPromptInjection.",
            )
        self._registered.skill_dirs.append(folder)

    def register_channel(self, adapter: ChannelAdapter) -> None:
        """Connects an account of a chat platform: receives its messages, sends the replies.

        Raises:
            PluginError: `register` has returned.
        """
        self._check_open()
        self._registered.channels.append(adapter)

    def register_model_provider(self, provider: ModelProvider, models: Sequence[ModelInfo]) -> None:
        """Offers models, each as `<id>/<model>`, and calls them through `provider`.

        Raises:
            PluginError: a model names another provider, or `register` has returned.
        """
        self._check_open()
        strange = [model.ref for model in models if model.provider != self.plugin]
        if strange:
            message = f"The provider of {', '.join(strange)} is not {self.plugin}."
            raise PluginError(message, "Name the plugin's id as the provider.")
        self._registered.models.append(ProvidedModels(provider, tuple(models)))

    def register_model_api(self, api: ModelApi) -> None:
        """Calls the models of every provider in `models.providers` whose `api` is `api.name`.

        That of a plugin is named `<id>.<name>`. `skerry.sdk.model_api` has what it is made with.

        Raises:
            PluginError: the name is another, or `register` has returned.
        """
        self._check_open()
        if not self._is_own_api(api.name):
            message = f"The API {api.name!r} does not begin with {self.plugin + '.'!r}."
            raise PluginError(message, "Name it by the plugin's id, a dot and a name.")
        self._registered.model_apis.append(api)

    def _is_own_api(self, name: str) -> bool:
        return name.startswith(f"{self.plugin}.")

    def register_search_provider(self, provider: SearchProvider) -> None:
        """Answers `web_search`, where `tools.web.search.provider` is `plugin`.

        Raises:
            PluginError: there is one already, or `register` has returned.
        """
        self._check_open()
        if self._registered.search is not None:
            raise PluginError("It has registered a search already.")
        self._registered.search = provider

    def register_embedding_provider(self, provider: EmbeddingProvider) -> None:
        """Embeds texts of the memory, where `memorySearch.provider` is `plugin`.

        Raises:
            PluginError: there is one already, or `register` has returned.
        """
        self._check_open()
        if self._registered.embedding is not None:
            raise PluginError("It has registered an embedding model already.")
        self._registered.embedding = provider

    @overload
    def register_provider(
        self, kind: Literal["model"], provider: ModelProvider, models: Sequence[ModelInfo]
    ) -> None: ...

    @overload
    def register_provider(self, kind: Literal["search"], provider: SearchProvider) -> None: ...

    @overload
    def register_provider(
        self, kind: Literal["embedding"], provider: EmbeddingProvider
    ) -> None: ...

    def register_provider(self, kind: str, provider: Any, models: Sequence[ModelInfo] = ()) -> None:
        """Provides models, searches or embeddings, as the method of each kind does.

        Raises:
            PluginError: there is no such kind, or what the method of the kind raises.
        """
        match kind:
            case "model":
                self.register_model_provider(provider, models)
            case "search":
                self.register_search_provider(provider)
            case "embedding":
                self.register_embedding_provider(provider)
            case _:
                message = f"Unknown kind of provider {kind!r}."
                raise PluginError(message, "Kinds: model, search, embedding.")

    def claim_slot(self, slot: str, backend: SlotMemory) -> None:
        """Provides what `plugins.slots.<slot>` names; the only slot is `memory`.

        The claim counts while the configuration names this plugin there. Then the built-in memory
        is not loaded: `/forget`, `skerry memory` and the page ask `backend`.

        Raises:
            PluginError: there is no such slot, it is claimed already, or `register` has returned.
        """
        self._check_open()
        if slot != "memory":
            raise PluginError(f"Unknown slot {slot!r}.", "The only slot is memory.")
        if self._registered.memory is not None:
            raise PluginError("It has claimed the slot memory already.")
        self._registered.memory = backend

    def _check_open(self) -> None:
        if self._sealed:
            raise PluginError("It registered something after `register` had returned.")
