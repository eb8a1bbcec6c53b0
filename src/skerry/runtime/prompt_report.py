"""Report on the prompt with which the next message of a conversation would be sent."""

from skerry.hooks.events import RunContext
from skerry.hooks.payloads import PromptDraft, joined
from skerry.model.ids import RunId, SessionId, SessionKey
from skerry.model.origin import Origin
from skerry.model.run import RunRequest
from skerry.ports.prompt import PromptFile, PromptPart, PromptReport
from skerry.runtime.run_context import Runtime, caller_of
from skerry.store import sessions
from skerry.workspace.prompt_builder import PromptTarget

_SMALL = "The context of this model is small: its prompt has no files of the workspace."
_CHANGED = (
    "{} changed after this conversation began. The prompt has the earlier text, and a notice asks"
    " the model to read the file again. /context reload, /new or a compaction loads the new text."
)
_ADDED = "Plugins may add to the prompt of a message, by before_prompt_build or llm_input."


async def report(runtime: Runtime, key: SessionKey) -> PromptReport:
    """Returns the report for a message of the owner, sent from the page or the terminal.

    Raises:
        ModelUnavailableError: no model can be used.
    """
    config = runtime.config()
    session = await runtime.store.read(lambda reader: sessions.find(reader, str(key)))
    session_id = session.session_id if session else SessionId("")
    chosen = session.settings.model if session else None
    _, model = await runtime.models.choose(chosen or config.primary_model(key.agent))
    context = RunContext(
        run_id=RunId(""),
        agent_id=key.agent,
        session_key=str(key),
        session_id=session_id,
        workspace=config.workspace(key.agent),
    )
    request = RunRequest(RunId(""), key, "", origin=Origin.OWNER)
    tools = runtime.tools.offered(caller_of(request), config, model)
    specs = tuple(tool.spec for tool in tools)
    target = PromptTarget(request, session_id, context, looking=True)
    prompt = await runtime.prompts.build(
        target, config, model, specs, runtime.hooks, runtime.clock.now_ms()
    )
    parts = [PromptPart(section.name, len(section.text)) for section in prompt.sections]
    system = prompt.text
    draft = PromptDraft(
        context=context, prompt="", messages=(), provider=model.provider, model=model.id
    )
    building = runtime.hooks.before_prompt_build
    for handler in building.handlers:
        if handler.runs_on_inspection and (
            added := (await building.run(draft, (handler,))).append_system_context
        ):
            system = joined(system, added)
            parts.append(PromptPart(f"plugin {handler.plugin}", len(added)))
    if specs:
        parts.append(PromptPart("tool schemas", prompt.tool_chars))
    notes = [_SMALL] if model.prompt_limit is not None else []
    if prompt.changed:
        notes.append(_CHANGED.format(", ".join(prompt.changed)))
    adds_unseen = any(
        handler.when is None and not handler.runs_on_inspection for handler in building.handlers
    )
    if adds_unseen or runtime.hooks.llm_input.handlers:
        notes.append(_ADDED)
    return PromptReport(
        session_key=str(key),
        session_id=session_id,
        model=model.ref,
        system=system,
        parts=parts,
        files=[PromptFile(file.name, file.raw, len(file.text)) for file in prompt.files],
        entries=session.tail if session else 0,
        conversation_tokens=session.total_tokens if session else 0,
        notes=notes,
    )
