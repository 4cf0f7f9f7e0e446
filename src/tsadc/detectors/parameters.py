"""Constructor arguments of a detector, read, set and copied by scikit-learn's tools.

scikit-learn itself is not imported for that: importing it takes longer than scoring a small file."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Self

from tsadc.config import nearest
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
            Name and value of each argument.
        """
        return {name: getattr(self, name) for name in self._defaults()}

    def set_params(self, **params: Any) -> Self:
        """Set constructor arguments by name; none is set if a name is wrong.

        Parameters
        ----------
        **params
            New values. A fitted detector uses them from the next `fit` on.

        Returns
        -------
        self

        Raises
        ------
        ConfigError
            If there is no such argument.
        """
        self._refuse_unknown(params)
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def _refuse_unknown(self, params: Mapping[str, Any]) -> None:
        names, kind = list(self._defaults()), type(self).__name__
        for name in params:
            if name in names:
                continue
            if hasattr(getattr(self, "Config", None), name):
                raise ConfigError(
                    f"{kind} has no parameter `{name}`; it is a setting, so pass config={kind}.Config({name}=...)."
                )
            raise ConfigError(f"{kind} has no parameter `{name}`{nearest(name, names)}")

    def __sklearn_tags__(self) -> Any:
        from sklearn.base import BaseEstimator

        return BaseEstimator().__sklearn_tags__()

    def __repr__(self) -> str:
        defaults = self._defaults()
        given = {name: value for name, value in self.get_params().items() if value is not defaults[name]}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in given.items())})"
