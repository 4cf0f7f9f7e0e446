"""The registry of detectors. A class is imported when it is first used."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from tsadc.config import nearest
from tsadc.errors import ConfigError, notice
from tsadc.optional import NEEDS_TORCH, imported, lacks_torch

if TYPE_CHECKING:
    from tsadc.detectors.base import Detector

REGISTRY = {
    "tsadc": "tsadc.detectors.tsadc.detector:TSADC",
    "usad": "tsadc.detectors.baselines.usad:USAD",
    "lstm-ae": "tsadc.detectors.baselines.lstm_ae:LSTMAE",
    "s4-ae": "tsadc.detectors.baselines.s4_ae:S4AE",
    "dcdetector": "tsadc.detectors.baselines.dcdetector:DCdetector",
    "gae": "tsadc.detectors.baselines.gae:GAE",
    "interfusion": "tsadc.detectors.baselines.interfusion:InterFusion",
    "dvgcrn": "tsadc.detectors.baselines.dvgcrn:DVGCRN",
    "graphs4mer": "tsadc.detectors.baselines.graphs4mer:GraphS4mer",
    "imdiffusion": "tsadc.detectors.baselines.imdiffusion:IMDiffusion",
    "gdn": "tsadc.detectors.baselines.gdn:GDN",
    "gru-gnn": "tsadc.detectors.baselines.gru_gnn:GRUGNN",
    "eeg-cgs": "tsadc.detectors.baselines.eeg_cgs:EEGCGS",
    "ensemble": "tsadc.detectors.ensemble.detector:Ensemble",
    "robust-z": "tsadc.detectors.classical.robust_z:RobustZ",
    "robust-z-rmse": "tsadc.detectors.classical.robust_z:RobustZRMSE",
    "ridge": "tsadc.detectors.classical.ridge:Ridge",
    "pca": "tsadc.detectors.classical.pca:PrincipalComponents",
    "mahalanobis": "tsadc.detectors.classical.mahalanobis:Mahalanobis",
    "log-energy": "tsadc.detectors.classical.log_energy:LogEnergy",
    "bands": "tsadc.detectors.classical.bands:BandPowers",
    "convolutions": "tsadc.detectors.classical.convolutions:RandomConvolutions",
    "isolation-forest": "tsadc.detectors.classical.isolation_forest:Forest",
    "moving-variance": "tsadc.detectors.classical.moving_variance:MovingVariance",
    "squared-difference": "tsadc.detectors.classical.squared_difference:SquaredDifference",
    "kmeans-ad": "tsadc.detectors.classical.kmeans_ad:KMeansAD",
    "sub-pca": "tsadc.detectors.classical.sub_pca:SubsequencePCA",
    "range-novelty": "tsadc.detectors.classical.range_novelty:RangeNovelty",
    "all-positive": "tsadc.detectors.classical.reference:AllPositive",
    "random": "tsadc.detectors.classical.reference:Chance",
}

# For benchmarks only: a plan and `find` know them, but no list shows them. They need PyOD.
PEERS = {
    "pyod-knn-max": "tsadc.detectors.classical.pyod_rows:KNNMax",
    "pyod-knn-mean": "tsadc.detectors.classical.pyod_rows:KNNMean",
    "pyod-lof-max": "tsadc.detectors.classical.pyod_rows:LOFMax",
    "pyod-lof-mean": "tsadc.detectors.classical.pyod_rows:LOFMean",
    "pyod-ecod-max": "tsadc.detectors.classical.pyod_rows:ECODMax",
    "pyod-ecod-mean": "tsadc.detectors.classical.pyod_rows:ECODMean",
    "pyod-hbos-max": "tsadc.detectors.classical.pyod_rows:HBOSMax",
    "pyod-hbos-mean": "tsadc.detectors.classical.pyod_rows:HBOSMean",
    "pyod-pca-max": "tsadc.detectors.classical.pyod_rows:PCAMax",
    "pyod-pca-mean": "tsadc.detectors.classical.pyod_rows:PCAMean",
    "pyod-iforest-max": "tsadc.detectors.classical.pyod_rows:IForestMax",
    "pyod-iforest-mean": "tsadc.detectors.classical.pyod_rows:IForestMean",
}

DEFAULT = "ensemble"  # what `tsadc fit` uses unless another one is named
RENAMED = {"views": "ensemble"}  # old name: new name
GROUP = "tsadc.detectors"  # the entry point group under which other packages add detectors


def names() -> list[str]:
    """Return the names of all detectors, including those of other packages."""
    return [*REGISTRY, *(name for name in _others() if name not in REGISTRY)]


def find(name: str) -> type[Detector]:
    """Return the detector class called `name`; an old name gives a notice."""
    from tsadc.detectors.base import Detector

    if name in RENAMED:
        notice(f"The detector `{name}` is now called `{RENAMED[name]}`.")
        name = RENAMED[name]
    own = REGISTRY | PEERS
    places = [own[name]] if name in own else _others().get(name, [])
    if not places:
        raise ConfigError(f"There is no detector {name!r}{nearest(name.lower(), names())}")
    if len(places) > 1:
        raise ConfigError(f"Several packages have a detector {name!r}, {' and '.join(places)}; remove all but one.")
    (place,) = places
    try:
        cls = EntryPoint(name, place, GROUP).load()
    except (Exception, SystemExit) as error:  # the module of another package may raise anything
        if lacks_torch(error):
            raise ConfigError(f"The detector {name!r} {NEEDS_TORCH}") from None
        why = next(iter(str(error).splitlines()), "").rstrip(".") or type(error).__name__
        raise ConfigError(f"The detector {name!r} is {place}, which cannot be loaded: {why}.") from error
    if not (isinstance(cls, type) and issubclass(cls, Detector)) or getattr(cls, "name", None) != name:
        raise ConfigError(f"{place} must be a Detector called {name!r}; see docs/guides/add-a-detector.md.")
    return cls


def _others() -> dict[str, list[str]]:
    """Return where other packages define detectors, by name; there should be one place per name."""
    places: dict[str, list[str]] = {}
    for entry in entry_points(group=GROUP):
        if entry.value not in places.setdefault(entry.name, []):
            places[entry.name].append(entry.value)
    return places


def __getattr__(name: str) -> Any:
    """Import `tsadc.detectors.GDN` and all others when they are first used."""
    for place in REGISTRY.values():
        module, _, cls = place.partition(":")
        if cls == name:
            return imported(module, cls)
    raise AttributeError(f"module 'tsadc.detectors' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *(place.partition(":")[2] for place in REGISTRY.values())])
