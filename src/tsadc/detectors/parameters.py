"""Constructor arguments of a detector, read, set and copied by scikit-learn's tools.

scikit-learn itself is not imported for that: importing it takes longer than scoring a small file."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Self

from tsadc.config import merge, nearest
from tsadc.errors import ConfigError


class Parameters:
    """What scikit-learn's `clone`, pipelines, searches and cross-validation require of an estimator.

    The constructor stores each argument unchanged in the attribute of the same name."""

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        """Return the default of each argument, in alphabetical order as scikit-learn lists them."""
        _, *arguments = inspect.signature(cls.__init__).parameters.values()
        named = [argument for argument in arguments if argument.kind is not argument.VAR_KEYWORD]
        return {argument.name: argument.default for argument in sorted(named, key=lambda argument: argument.name)}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments by name.

        Parameters
        ----------
        deep : bool, default True
            Ignored, as no argument is an estimator.

        Returns
        -------
        dict
            Name and value of each argument, and of each setting that was given by name.
        """
        return {name: getattr(self, name) for name in self._defaults()} | self._given

    def set_params(self, **params: Any) -> Self:
        """Set constructor arguments and settings by name; none is set if a name is wrong.

        Parameters
        ----------
        **params
            New values. A setting of a section has both names, joined by two underscores: ``threshold__method="tail"``.
            A fitted detector uses them from the next `fit` on.

        Returns
        -------
        self

        Raises
        ------
        ConfigError
            If there is no such argument or setting.
        """
        self._refuse_unknown(params)
        self._store({name: value for name, value in params.items() if name not in self._defaults()})
        for name, value in params.items():
            if name in self._defaults():
                setattr(self, name, value)
        return self

    @property
    def _given(self) -> dict[str, Any]:
        """The settings given by name, such as `threshold__method`."""
        given: dict[str, Any] = self.__dict__.setdefault("_settings_by_name", {})
        return given

    def _store(self, settings: Mapping[str, Any]) -> None:
        """Store settings by name, dots written as two underscores."""
        self._refuse_unknown(settings)
        for name, value in settings.items():
            self._given[name.replace(".", "__")] = value

    def _settings_tree(self) -> dict[str, Any]:
        """Return the settings given by name, section by section."""
        tree: dict[str, Any] = {}
        for name, value in self._given.items():
            *sections, last = name.split("__")
            for section in reversed(sections):
                value, last = {last: value}, section
            tree = merge(tree, {last: value})
        return tree

    def _refuse_unknown(self, params: Mapping[str, Any]) -> None:
        arguments, kind = list(self._defaults()), type(self).__name__
        for name in params:
            if name in arguments:
                continue
            section: Any = self.Config() if hasattr(self, "Config") else None
            path: list[str] = []
            for part in name.replace(".", "__").split("__"):
                names = [field.name for field in fields(section)] if is_dataclass(section) else []
                if not path and (part not in names or part in arguments):
                    known = [*arguments, *(other for other in names if other not in arguments)]
                    raise ConfigError(f"{kind} has no parameter `{name}`{nearest(name, known)}")
                if part not in names:
                    raise ConfigError(
                        f"There is no setting `{'.'.join([*path, part])}`{nearest(part, names, '.'.join(path))}"
                        if names
                        else f"`{'.'.join(path)}` is a setting and not a section, so `{name}` does not exist."
                    )
                section = getattr(section, part)
                path.append(part)

    def __sklearn_tags__(self) -> Any:
        from sklearn.base import BaseEstimator

        return BaseEstimator().__sklearn_tags__()

    def __repr__(self) -> str:
        defaults = self._defaults()
        arguments = self.get_params().items()
        given = {name: value for name, value in arguments if name not in defaults or value is not defaults[name]}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in given.items())})"
