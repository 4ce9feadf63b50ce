"""Gives the folders of the top level one import root: `streams/` is installed as `trajlake.streams`, and so on.

Everything else about the package is in pyproject.toml; this part alone cannot be said there without listing each
subpackage by hand.
"""

from setuptools import find_packages, setup

LAYERS = ("expectations", "sinks", "streams", "transforms")

setup(
    packages=[
        *(f"trajlake.{layer}" for layer in LAYERS),
        *(f"trajlake.{layer}.{package}" for layer in LAYERS for package in find_packages(layer)),
        *("trajlake", *(f"trajlake.{package}" for package in find_packages("trajlake"))),
    ],
    package_dir={"trajlake": "trajlake", **{f"trajlake.{layer}": layer for layer in LAYERS}},
)
