"""Base classes of the sections of the configuration file, and the sections of features."""

import re
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    SerializationInfo,
    create_model,
)
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, core_schema

from skerry.infra.features import FEATURES, Feature

S = TypeVar("S", bound="Section")


class Section(BaseModel):
    """A section of the file: camelCase in the file, snake_case here; an unknown key is an error.

    It is for sections in which a typo could give access: gateway, session, tools, channels,
    plugins, hooks, and the sandbox and tools of an agent.

    There is one validator, for the whole file; it is made when a file is checked. A default is
    therefore `model_construct()`: a call of the class would make a validator of the section.
    """

    free_names: ClassVar[re.Pattern[str] | None] = None
    """Pattern of further keys that the section accepts besides its fields."""

    model_config = ConfigDict(
        frozen=True,
        defer_build=True,
        extra="forbid",
        alias_generator=to_camel,
        populate_by_name=True,
    )

    @classmethod
    def for_key(cls, key: str) -> "type[Section]":
        """Returns the class of the section with this key in a mapping; by default this class."""
        del key
        return cls

    def section(self, kind: type[S]) -> S:
        """Returns the section of a feature within this one; its defaults if the file has none.

        Raises:
            LookupError: no feature has such a section here.
        """
        name, field = _field_of(type(self), kind)
        value: S | None = getattr(self, name)
        return field.default if value is None else value

    def own_section(self, kind: type[S]) -> S | None:
        """Returns the section of a feature within this one; None if the file has none.

        Raises:
            LookupError: no feature has such a section here.
        """
        name, _ = _field_of(type(self), kind)
        value: S | None = getattr(self, name)
        return value


class OpenSection(Section):
    """A section in which an unknown key is kept with a warning, not refused."""

    model_config = ConfigDict(extra="allow")


class FeatureSection:
    """Marks a field whose class is defined by a feature.

    The class is imported when the file has the section, or when the section is read; so a start
    does not import the classes of features that are not configured. Until then the field is None.
    """

    def __init__(self, feature: Feature, name: str, *, is_optional: bool) -> None:
        self.feature = feature
        self._name = name
        self.is_optional = is_optional

    @cached_property
    def kind(self) -> type[Section]:
        """Returns the class; imports it."""
        section: type[Section] = self.feature.load(f"config:{self._name}")
        return section

    def is_of(self, kind: type[Section]) -> bool:
        """Returns whether the class is `kind`; imports it only if its name is the same."""
        return self._name == kind.__name__ and self.kind is kind

    @cached_property
    def default(self) -> Any:
        """Returns the value of the field if the file does not have the section."""
        return self.kind.model_construct()

    def __get_pydantic_core_schema__(self, _: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Returns a schema that validates and serialises with the class of the feature."""
        del handler
        writer = core_schema.plain_serializer_function_ser_schema(self._serialize, info_arg=True)
        return core_schema.no_info_plain_validator_function(self._checked, serialization=writer)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Returns an empty schema, which `scripts.config_schema` completes."""
        del schema, handler
        return {}

    def _checked(self, value: object) -> Section | None:
        if value is None and self.is_optional:
            return None
        return self.kind.model_validate(value)

    def _serialize(self, value: Section | None, info: SerializationInfo) -> Any:
        if value is None and self.is_optional:
            return None
        section: Section = self.default if value is None else value
        return section.model_dump(
            mode=info.mode, by_alias=info.by_alias, exclude_unset=info.exclude_unset
        )


def with_sections(
    path: str, features: Sequence[Feature] = FEATURES, *, are_optional: bool = False
) -> Callable[[type[S]], type[S]]:
    """Adds the sections of features to the section at this path of the file.

    Args:
        path: Names of the fields, such as `agents.defaults`; empty for the whole file.
        features: The features.
        are_optional: True if a missing section differs from a section with its defaults.

    """

    def extended(section: type[S]) -> type[S]:
        fields: dict[str, Any] = {}
        for feature in features:
            for key_path, name in feature.sections.items():
                parent, _, key = key_path.rpartition(".")
                if parent == path:
                    mark = FeatureSection(feature, name, is_optional=are_optional)
                    fields[key] = (Annotated[Section | None, mark], None)
        if not fields:
            return section
        return create_model(
            section.__name__,
            __base__=section,
            __module__=section.__module__,
            __doc__=section.__doc__,
            **fields,
        )

    return extended


def feature_section(field: FieldInfo) -> FeatureSection | None:
    """Returns the mark of a field that is a section of a feature; None for other fields."""
    return next((mark for mark in field.metadata if isinstance(mark, FeatureSection)), None)


def kind_of(field: FieldInfo) -> Any:
    """Returns the type of a field; imports the class if it is a section of a feature."""
    mark = feature_section(field)
    return field.annotation if mark is None else mark.kind


@lru_cache(maxsize=256)
def _field_of(section: type[Section], kind: type[Section]) -> tuple[str, FeatureSection]:
    for name, field in section.model_fields.items():
        mark = feature_section(field)
        if mark is not None and mark.is_of(kind):
            return name, mark
    raise LookupError(f"{section.__name__} has no section {kind.__name__}: no feature defines it")
