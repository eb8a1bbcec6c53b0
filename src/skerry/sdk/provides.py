"""Registration of providers: channels, models, web search, embeddings, the memory."""

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
    """Base of `PluginApi`: registers parts that replace or extend a part of the gateway."""

    def __init__(self, plugin: str, *, allow_prompt: bool = True) -> None:
        self.plugin = plugin
        self._allow_prompt = allow_prompt
        self._registered = Registered()
        self._sealed = False

    def register_skill_dir(self, folder: Path) -> None:
        """Offers the skills in `folder`: a folder with a SKILL.md, or a folder of such folders.

        The system prompt lists name, description and path of each skill whose requirements this
        machine meets; the model reads the file with `read` when it needs it. The key `skills` of
        the manifest does the same.

        Raises:
            PluginError: the configuration does not allow it, or `register` has returned. A folder
                that is missing or outside of the plugin's folder fails when the plugin is loaded.
        """
        self._check_open()
        if not self._allow_prompt:
            raise PluginError(
                "The plugin registers skills, which are listed in the prompt.",
                f"Allow it with plugins.entries.{self.plugin}.hooks.allowPromptInjection.",
            )
        self._registered.skill_dirs.append(folder)

    def register_channel(self, adapter: ChannelAdapter) -> None:
        """Connects an account of a chat platform, from which messages arrive and replies are sent.

        Raises:
            PluginError: `register` has returned.
        """
        self._check_open()
        self._registered.channels.append(adapter)

    def register_model_provider(self, provider: ModelProvider, models: Sequence[ModelInfo]) -> None:
        """Offers `models`, each as `<id>/<model>`; `provider.complete` calls them.

        Raises:
            PluginError: the `provider` of a model is not the plugin's id, or `register` has
                returned.
        """
        self._check_open()
        foreign = [model.ref for model in models if model.provider != self.plugin]
        if foreign:
            message = f"The provider of {', '.join(foreign)} is not {self.plugin}."
            raise PluginError(message, "Name the plugin's id as the provider.")
        self._registered.models.append(ProvidedModels(provider, tuple(models)))

    def register_model_api(self, api: ModelApi) -> None:
        """Adds a wire format: providers in `models.providers` select it by `"api": "<id>.<name>"`.

        `skerry.sdk.model_api` has the parts of which a wire format consists.

        Raises:
            PluginError: `api.name` does not begin with the plugin's id and a dot, or `register` has
                returned.
        """
        self._check_open()
        if not self._is_own_api(api.name):
            message = f"The API {api.name!r} does not begin with {self.plugin + '.'!r}."
            raise PluginError(message, "Name it by the plugin's id, a dot and a name.")
        self._registered.model_apis.append(api)

    def _is_own_api(self, name: str) -> bool:
        return name.startswith(f"{self.plugin}.")

    def register_search_provider(self, provider: SearchProvider) -> None:
        """Answers the tool `web_search`, where `tools.web.search.provider` is `plugin`.

        Raises:
            PluginError: the plugin has registered a search already, or `register` has returned.
        """
        self._check_open()
        if self._registered.search is not None:
            raise PluginError("The plugin has registered a search already.")
        self._registered.search = provider

    def register_embedding_provider(self, provider: EmbeddingProvider) -> None:
        """Embeds texts of the memory, where `memorySearch.provider` is `plugin`.

        Raises:
            PluginError: the plugin has registered a model already, or `register` has returned.
        """
        self._check_open()
        if self._registered.embedding is not None:
            raise PluginError("The plugin has registered an embedding model already.")
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
        """Calls `register_model_provider`, `register_search_provider` or its like, by `kind`.

        Raises:
            PluginError: `kind` is unknown, or the called method raises it.
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
        """Claims a slot of the gateway for `backend`; the only slot is `memory`.

        The claim is effective while `plugins.slots.<slot>` is this plugin's id. Then the built-in
        memory is not loaded: `/forget`, `skerry memory` and the page call `backend`.

        Raises:
            PluginError: the slot is unknown or claimed already, or `register` has returned.
        """
        self._check_open()
        if slot != "memory":
            raise PluginError(f"Unknown slot {slot!r}.", "The only slot is memory.")
        if self._registered.memory is not None:
            raise PluginError("The plugin has claimed the slot memory already.")
        self._registered.memory = backend

    def _check_open(self) -> None:
        if self._sealed:
            raise PluginError("The plugin registered a part after `register` had returned.")
