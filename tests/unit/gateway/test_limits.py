"""Every parameter of every method has a limit: no text, list or object is as long as one likes."""

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any, Final

from skerry.gateway import handshake, methods
from skerry.gateway.method import Params
from skerry.sdk.features import registered

BOUNDED_BY_THE_FRAME: Final = {
    # Handed on to a node, or kept from it, as they are; a frame has a limit.
    "EventParams.payload",
    "InvokeParams.params",
    "ResultParams.payload",
    "ConnectParams.computerUse",
}
CHECKED_BY_A_FUNCTION: Final = {
    "MarkdownRenderParams.texts",
    "ModelsConfigureParams.apiKey",
    "ModelsOfferedParams.apiKey",
    "SessionsUsageParams.endDate",
    "SessionsUsageParams.startDate",
    "UsageCostParams.endDate",
    "UsageCostParams.startDate",
    "UsageReportParams.endDate",
    "UsageReportParams.startDate",
    "RangeParams.endDate",
    "RangeParams.startDate",
}


def below(kind: type[Params]) -> Iterator[type[Params]]:
    for subclass in kind.__subclasses__():
        yield subclass
        yield from below(subclass)


def open_at(schema: dict[str, Any], where: str) -> Iterator[str]:
    """Yields the path where the schema itself has no limit."""
    kind = schema.get("type")
    if kind == "string" and not {"maxLength", "enum", "const"} & schema.keys():
        yield where
    if kind == "array" and "maxItems" not in schema:
        yield f"{where}[]"
    if kind == "object" and not {"properties", "maxProperties"} & schema.keys():
        yield from () if schema.get("additionalProperties") is False else [f"{where}{{}}"]
    if not schema.keys() - {"title", "description", "default"}:
        yield where


class Walk:
    """Finds the parts of a JSON Schema without a limit."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self.definitions = schema.get("$defs", {})
        self.seen: set[str] = set()

    def unlimited(self, schema: dict[str, Any], where: str) -> Iterator[str]:
        if reference := schema.get("$ref"):
            if reference not in self.seen:
                self.seen.add(reference)
                yield from self.unlimited(self.definitions[reference.split("/")[-1]], where)
            return
        for choice in ("anyOf", "oneOf", "allOf"):
            for one in schema.get(choice, ()):
                yield from self.unlimited(one, where)
        yield from open_at(schema, where)
        if "items" in schema:
            yield from self.unlimited(schema["items"], where)
        for name, one in schema.get("properties", {}).items():
            yield from self.unlimited(one, f"{where}.{name}")


def test_no_parameter_is_without_a_limit() -> None:
    for module in pkgutil.iter_modules(methods.__path__):
        importlib.import_module(f"{methods.__name__}.{module.name}")
    registered().load_methods()
    ours = ("skerry.gateway", "skerry.features")
    kinds = {kind for kind in below(Params) if kind.__module__.startswith(ours)}
    assert handshake.ConnectParams in kinds
    found: set[str] = set()
    for kind in kinds:
        schema = kind.model_json_schema()
        found |= set(Walk(schema).unlimited(schema, kind.__name__))
    assert found == BOUNDED_BY_THE_FRAME | CHECKED_BY_A_FUNCTION
