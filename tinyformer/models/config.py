"""Configurations: frozen records that print, compare and go through JSON and back unchanged."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, Mapping, Type, TypeVar

C = TypeVar("C", bound="Config")


@dataclasses.dataclass(frozen=True)
class Config:
    """The base of all configurations."""

    def to_dict(self) -> Dict[str, Any]:
        """The fields by name, as JSON can hold them."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls: Type[C], values: Mapping[str, Any]) -> C:
        """The configuration with these fields.

        Raises ValueError that lists the names which it does not have, and those which are missing.
        """
        fields = dataclasses.fields(cls)
        known = [field.name for field in fields]
        problems = [f"{name!r} is unknown" for name in values if name not in known]
        problems += [f"{field.name!r} is missing" for field in fields
                     if field.name not in values and field.default is dataclasses.MISSING]
        if problems:
            raise ValueError(f"{cls.__name__}: {', '.join(problems)}; it has {', '.join(known)}")
        return cls(**values)

    def at_least_one(self, *names: str) -> None:
        """ValueError if one of the fields is not an integer of at least 1."""
        for name in names:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} must be a whole number of at least 1, not {value!r}")
