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
        """The configuration with these fields; ValueError for names that it does not have."""
        known = [field.name for field in dataclasses.fields(cls)]
        unknown = sorted(set(values) - set(known))
        if unknown:
            raise ValueError(f"{cls.__name__} has no {', '.join(unknown)}; it has {', '.join(known)}")
        return cls(**values)

    def at_least_one(self, *names: str) -> None:
        """ValueError if one of the fields is not an integer of at least 1."""
        for name in names:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} must be a whole number of at least 1, not {value!r}")
