"""`SettingsReader`: the settings of a program from its environment; the field `log_level` is `PENSTOCK_LOG_LEVEL`."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

PREFIX: Final = "PENSTOCK_"
ACCOUNT_FOLDER: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
LOG_FORMATS: Final = ("json", "text")
LOG_LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR")
LOG_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "log_format": LOG_FORMATS,
    "log_level": LOG_LEVELS,
}


def variable(name: str) -> str:
    """Return the environment variable of a setting."""
    return PREFIX + name.upper()


@dataclass(frozen=True, slots=True)
class SettingsReader:
    """Reads the fields of a settings dataclass; each fault is an `error` that names variable, value and rule."""

    error: type[Exception]
    required: tuple[str, ...]
    """Settings that must be set."""
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Allowed texts of a setting."""
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Least and greatest value of each number."""

    def texts(self, settings: type[Any], environ: Mapping[str, str]) -> dict[str, str]:
        """Return the text of each setting in `environ`, without surrounding space.

        Raises:
            error: a variable is unknown, or a required one is missing.
        """
        texts = {
            key.removeprefix(PREFIX).lower(): text.strip()
            for key, text in environ.items()
            if key.startswith(PREFIX)
        }
        known = sorted(setting.name for setting in fields(settings))
        unknown = sorted(texts.keys() - known)
        if unknown:
            names = ", ".join(map(variable, known))
            raise self.error(f"{variable(unknown[0])} is not a setting; known: {names}")
        for name in self.required:
            if not texts.get(name):
                raise self.error(f"{variable(name)} must be set")
        return texts

    def values(self, settings: type[Any], environ: Mapping[str, str]) -> dict[str, Any]:
        """Return the value of each setting in `environ`, of the type of its field: bool, int, float or str.

        Raises:
            error: as `texts`, or a value is not allowed.
        """
        kinds = {setting.name: setting.type for setting in fields(settings)}
        texts = self.texts(settings, environ)
        return {name: self._value(name, kinds[name], text) for name, text in texts.items()}

    def _value(self, name: str, kind: object, text: str) -> object:
        if kind is bool:
            if text not in ("true", "false"):
                raise self.error(f"{variable(name)} must be true or false, got {text!r}")
            return text == "true"
        if kind is int or kind is float:
            return self._number(name, int if kind is int else float, text)
        allowed = self.choices.get(name)
        if allowed and text not in allowed:
            choices = ", ".join(allowed)
            raise self.error(f"{variable(name)} must be one of {choices}, got {text!r}")
        return text

    def _number(self, name: str, kind: type[int] | type[float], text: str) -> float:
        low, high = self.bounds[name]
        try:
            number = kind(text)
        except ValueError:
            number = float("nan")
        if not low <= number <= high:
            limits = f"from {low:g} to {high:g}"
            raise self.error(f"{variable(name)} must be a number {limits}, got {text!r}")
        return number
