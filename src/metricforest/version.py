"""The version of the library, as it stands in pyproject.toml and in every file written."""

__version__ = "0.1.0"
