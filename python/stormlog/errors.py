"""The exceptions of Stormlog. Each also derives from a built-in exception, such as ``ValueError``,
which programs written for stormlog 0.3.9 catch."""

from __future__ import annotations

from json import JSONDecodeError


class StormlogError(Exception):
    """Base class of Stormlog's exceptions. Some wrong arguments raise a plain ``ValueError``
    instead, as in stormlog 0.3.9."""


class InvalidRecordError(StormlogError, ValueError):
    """A telemetry record breaks a rule of the schema version that it states."""


class InvalidValueError(StormlogError, ValueError):
    """A value is outside the allowed range."""


class InvalidTypeError(StormlogError, TypeError):
    """A value has a type that is not allowed."""


class InvalidArtifactError(StormlogError, ValueError):
    """A file does not have the expected content."""


class IssueSidecarError(StormlogError, ValueError):
    """The state file of issues cannot be read or changed."""


class ArtifactReadError(StormlogError, OSError):
    """A file cannot be read."""


class ArtifactWriteError(StormlogError, OSError):
    """A file cannot be written."""


class NotAnArtifactError(StormlogError, IsADirectoryError):
    """A directory contains no telemetry."""


class OutOfRangeError(InvalidRecordError, InvalidValueError, OverflowError):
    """An integer does not fit into a signed 64-bit number."""


class ArtifactNotFoundError(StormlogError, FileNotFoundError):
    """A path does not exist."""


class MalformedJSONError(StormlogError, JSONDecodeError):
    """A document is not JSON."""


class ArtifactEncodingError(StormlogError, UnicodeDecodeError):
    """A file is not UTF-8."""


class PhaseProtocolError(StormlogError, RuntimeError):
    """A phase was ended before a phase inside it, on another thread, or twice."""


class RecorderError(StormlogError, RuntimeError):
    """Recording cannot start or continue."""


class NoAcceleratorError(StormlogError, RuntimeError):
    """No GPU, or no runtime for it, was found."""


class MissingFrameworkError(StormlogError, ImportError):
    """A framework that a feature needs is not installed."""


class NotSupportedError(StormlogError, RuntimeError):
    """This version of Stormlog or the installed framework does not support a requested feature."""


class StormlogDamageWarning(UserWarning):
    """Part of an artifact could not be read; the rest was read."""
