"""The frozen record of one data set, and the sizes of its objects.

`gdn_keras/datasets/sets/` has a file with a record for each data set of the package. Everything
else (evaluation, prediction, cards, figures, …) asks the record and knows no names.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol, runtime_checkable

from gdn_keras.datasets.arrays import Arrays, join
from gdn_keras.utils.checks import check_integer, check_number, has_type
from gdn_keras.utils.fields import check_fields

SURROUNDINGS = ("black", "mirrored", "its edge")


# === Sizes ===


class Sizes(ABC):
    """The sizes at which a network is tested, and those it is trained on.

    A size has a key, its name in files of results. Subclasses say what a size is.
    """

    unit: ClassVar[str]  # "factor" or "pixels"
    note: ClassVar[str] = ""  # what a reader of a table must know about the sizes
    values: tuple[float, ...]
    ranges: Mapping[str, tuple[int, int]]  # names of ranges to train on, first and last size

    @property
    def keys(self) -> list[str]:
        """The keys of all sizes, in their order."""
        return [self.key(value) for value in self.values]

    @property
    @abstractmethod
    def columns(self) -> dict[str, tuple[float, ...]]:
        """The columns of a small table: heading and the sizes it averages."""

    @abstractmethod
    def check(self, size: float) -> float:
        """The size that a user means; raises ValueError if there is none."""

    @abstractmethod
    def key(self, size: float) -> str:
        """The key of a size that a user gives."""

    def value(self, key: str) -> float:
        """The size with this key."""
        return self.check(float(key))

    @abstractmethod
    def label(self, key: str) -> str:
        """The size in words."""

    def heading(self, key: str) -> str:
        """The size in the heading of a table."""
        return key

    @abstractmethod
    def trained(self, train_sizes: str | None = None) -> tuple[float, ...]:
        """The sizes trained on: all of the named range."""

    @abstractmethod
    def trained_words(self, train_sizes: str | None = None) -> str:
        """What a network was trained on, in words."""

    @abstractmethod
    def trained_side(self, train_sizes: str | None = None) -> int | None:
        """Side of the objects trained on in pixels, the middle one; None if they fill the image."""

    def reference(self, train_sizes: str | None = None) -> str:
        """The key of the middle one of the sizes trained on."""
        trained = self.trained(train_sizes)
        return self.key(trained[(len(trained) - 1) // 2])


@dataclass(frozen=True)
class SizeFactors(Sizes):
    """The same images at one or several size factors; networks are trained at size factor 1."""

    values: tuple[float, ...] = (1.0,)
    side: int | None = None  # of an object at size factor 1, in pixels; None: it fills the image
    rule: str = "one of"  # what the factors are, in words

    unit = "factor"
    ranges = {}
    _FRACTIONS: ClassVar = {0.5: "½", 1.0: "1", 2.0: "2"}

    @property
    def columns(self):
        return {words: (f,) for f, words in self._FRACTIONS.items() if f in self.values}

    def check(self, size):
        """The exact factor for a number that agrees with it to three decimals."""
        check_number("size_factor", size)
        for exact in self.values:
            if abs(size - exact) <= 5e-4:
                return exact
        if len(self.values) == 1:
            expected = f"{self.values[0]:g} for the regular sets, which have no other sizes"
        else:
            expected = f"{self.rule}: {', '.join(f'{factor:.3f}' for factor in self.values)}"
        raise ValueError(f"`size_factor` must be {expected}. Received: size_factor={size}.")

    def key(self, size):
        return f"{self.check(size):.3f}"

    def label(self, key):
        return f"size factor {key}"

    def heading(self, key):
        return key.rstrip("0").rstrip(".")

    def trained(self, train_sizes=None):
        if train_sizes is not None:
            raise ValueError(
                "`train_sizes` must be None for a data set with size factors, whose networks are "
                f"trained at size factor 1. Received: train_sizes={train_sizes!r}."
            )
        return (1.0,)

    def trained_words(self, train_sizes=None):
        return "one object size (size factor 1)"

    def trained_side(self, train_sizes=None):
        return self.side


@dataclass(frozen=True)
class ObjectSizes(Sizes):
    """Objects of every size from `first` to `last` pixels, trained on those of a named range."""

    first: int
    last: int
    ranges: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    unit = "pixels"
    note = "Sizes are those of the objects in pixels"

    @property
    def values(self):
        return tuple(range(self.first, self.last + 1))

    @property
    def columns(self):
        ranges = self.ranges.values() or [(self.first, self.last)]
        return {f"{low}…{high}": tuple(range(low, high + 1)) for low, high in ranges}

    def choose(self, sizes: str | Iterable[int] | int) -> tuple[int, ...]:
        """The sizes behind the name of a range, "all" included, or the given ones if all exist."""
        names = (*self.ranges, "all")
        whole = f"whole numbers in {self.first}...{self.last}"
        if isinstance(sizes, str):
            if sizes not in names:
                raise ValueError(
                    f"`sizes` must be one of {names}, or {whole}. Received: sizes={sizes!r}."
                )
            low, high = self.ranges.get(sizes, (self.first, self.last))
            return tuple(range(low, high + 1))
        chosen = tuple(sizes) if isinstance(sizes, Iterable) else (sizes,)
        if not chosen or any(not has_type(n, float) or n not in self.values for n in chosen):
            raise ValueError(f"`sizes` must be {whole}. Received: sizes={chosen}.")
        return tuple(int(size) for size in chosen)

    def check(self, size):
        return self.choose([size])[0]

    def key(self, size):
        return str(self.check(size))

    def label(self, key):
        return f"object size {key} pixels"

    def trained(self, train_sizes=None):
        return self.choose(train_sizes or "all")

    def trained_words(self, train_sizes=None):
        sizes = self.trained(train_sizes)
        return f"objects of {sizes[0]} to {sizes[-1]} pixels"

    def trained_side(self, train_sizes=None):
        return self.value(self.reference(train_sizes))


def shown_sizes(sizes: Iterable[str], *, most: int = 9) -> list[str]:
    """Sizes for a table: all, or a selection from the first to the last (STIR has 48)."""
    sizes = list(sizes)
    if len(sizes) <= most:
        return sizes
    return [sizes[round(k * (len(sizes) - 1) / (most - 1))] for k in range(most)]


# === Images ===


class Loader:
    """How the images of a data set are loaded. Your own data set needs only `load`."""

    def load(
        self, sizes: Sequence[float], *, split: str, data_dir=None, limit: int | None = None
    ) -> Iterator[tuple[float, Arrays]]:
        """The images of a split at each of the sizes, one size at a time; files are read once.

        `limit` is the largest number of images of each size.
        """
        name = type(self).__name__
        raise NotImplementedError(f"{name} has no `load`: it is a source of rescaled images.")

    def check(self, data_dir=None) -> None:
        """Raise FileNotFoundError if files are missing that are not downloaded; loads nothing."""

    def files(self, folder: Path) -> list[Path]:
        """The files that a data folder should have, none if the data set is not in it."""
        return []

    def status(self, path: Path) -> str:
        """Either "ok" or what is wrong with one of these files."""
        return "ok"


@runtime_checkable
class Samples(Protocol):
    """A few test images that come with the package."""

    size_factors: tuple[float, ...]  # those at which there are samples

    def load(self, size_factor: float = 1.0) -> Arrays: ...


# === The record ===


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """A data set: what it shows, whose it is, and how to load it. Unknown fields stay empty.

    >>> birds = DataSet(name="my_birds", image_size=(64, 64), channels=3,
    ...                 class_names=("crow", "gull"), loader=MyLoader())
    >>> gdn_keras.datasets.register(birds)
    """

    name: str
    title: str = ""  # for people
    description: str = ""  # a sentence or two
    image_size: tuple[int, int] | None = None  # height and width
    channels: int | None = None
    num_classes: int | None = None  # by default as many as names
    class_names: tuple[str, ...] = ()  # empty if only the files have them
    num_images: tuple[int, int] | None = None  # to train on (of a range), to test on (of a size)
    sizes: Sizes = SizeFactors()
    surroundings: str | None = None  # of the objects, one of `SURROUNDINGS`; None: there are none
    licence: str = ""  # of the images
    remark: str = ""  # what the reader of a model card cannot know about the images
    homepage: str = ""
    citation: str = ""  # BibTeX
    hub_id: str | None = None  # on the Hugging Face Hub
    loader: Loader | None = None
    samples: Samples | None = None

    def __post_init__(self):
        check_fields(self)
        object.__setattr__(self, "class_names", tuple(self.class_names))
        if self.num_classes is None and self.class_names:
            object.__setattr__(self, "num_classes", len(self.class_names))
        if self.class_names and self.num_classes != len(self.class_names):
            raise ValueError(
                f"`class_names` must be {self.num_classes} names (`num_classes`), one per class. "
                f"Received: {len(self.class_names)} names."
            )
        if self.surroundings not in (None, *SURROUNDINGS):
            raise ValueError(
                f"`surroundings` must be None or one of {SURROUNDINGS}. "
                f"Received: surroundings={self.surroundings!r}."
            )

    def load_sizes(
        self,
        keys: Iterable[str] | None = None,
        *,
        split: str = "test",
        data_dir=None,
        limit: int | None = None,
    ) -> Iterator[tuple[str, Arrays]]:
        """The images at each of the sizes called `keys` (default: all), one size after another.

        Args:
            keys: of `sizes.keys`.
            split: "train", "validation" or "test".
            data_dir: folder with the files. Default: the environment variable GDN_KERAS_DATA.
            limit: maximum number of images of each size.
        """
        _check_limit(limit)
        keys = list(self.sizes.keys if keys is None else keys)
        values = [self.sizes.value(key) for key in keys]
        loaded = self._loader().load(values, split=split, data_dir=data_dir, limit=limit)
        for key, (_, arrays) in zip(keys, loaded, strict=True):
            yield key, arrays

    def load_training(
        self,
        train_sizes: str | None = None,
        *,
        split: str = "train",
        data_dir=None,
        limit: int | None = None,
    ) -> Arrays:
        """The images to train on: those of a range of sizes, or of size factor 1."""
        _check_limit(limit)
        sizes = self.sizes.trained(train_sizes)
        # several sizes come one after another, so the first images would be of one kind
        each = limit if len(sizes) == 1 else None
        loaded = self._loader().load(sizes, split=split, data_dir=data_dir, limit=each)
        return join([arrays for _, arrays in loaded]).spread(limit)

    def check_files(self, data_dir=None) -> None:
        """Raise FileNotFoundError, which says how to get them, if files are missing."""
        self._loader().check(data_dir)

    def _loader(self) -> Loader:
        if self.loader is None:
            raise ValueError(f"The record of {self.name!r} does not say how to load it: no loader.")
        return self.loader


def _check_limit(limit: int | None) -> None:
    if limit is not None:
        check_integer("limit", limit, low=1, expected="None or an integer of at least 1")
