"""The arguments of a detector's constructor as scikit-learn's tools read, set and copy them. scikit-learn itself is not
loaded for that: it takes longer to load than a small file takes to judge."""

from __future__ import annotations

import inspect
from typing import Any, Self

from tsadc.config import nearest
from tsadc.errors import ConfigError


class Parameters:
    """What `clone`, pipelines, searches and cross-validation of scikit-learn ask of an estimator. The constructor keeps
    each argument, as it came, under its name."""

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        """The arguments by name, in alphabetical order as scikit-learn lists them."""
        _, *arguments = inspect.signature(cls.__init__).parameters.values()
        return {one.name: one.default for one in sorted(arguments, key=lambda one: one.name)}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments. `deep` changes nothing: none of them is an estimator."""
        return {name: getattr(self, name) for name in self._defaults()}

    def set_params(self, **params: Any) -> Self:
        """Set arguments by name: all of them, or none where a name is wrong."""
        names = list(self._defaults())
        for name in params:
            if name not in names:
                raise ConfigError(f"{type(self).__name__} has no parameter `{name}`{nearest(name, names)}")
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def __sklearn_tags__(self) -> Any:
        from sklearn.base import BaseEstimator

        return BaseEstimator().__sklearn_tags__()

    def __repr__(self) -> str:
        defaults = self._defaults()
        given = {name: value for name, value in self.get_params().items() if value is not defaults[name]}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in given.items())})"
