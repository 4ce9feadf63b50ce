"""Reads the docstrings that stand below fields and enum members: the one place where their meaning is written.

Python drops such strings when it compiles, so they are read from the module's source.
"""

from __future__ import annotations

import ast
import inspect
import sys
from functools import cache
from typing import Final

_ASSIGNMENTS: Final = (ast.AnnAssign, ast.Assign)


@cache
def _module_docs(module: str) -> dict[str, dict[str, str]]:
    """Class name -> field name -> docstring, for every class at the top of a module."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: _class_docs(node) for node in tree.body if isinstance(node, ast.ClassDef)}


def _class_docs(node: ast.ClassDef) -> dict[str, str]:
    docs: dict[str, str] = {}
    for before, after in zip(node.body, node.body[1:], strict=False):
        if not isinstance(before, _ASSIGNMENTS) or not isinstance(after, ast.Expr):
            continue
        target = before.target if isinstance(before, ast.AnnAssign) else before.targets[0]
        text = after.value.value if isinstance(after.value, ast.Constant) else None
        if isinstance(target, ast.Name) and isinstance(text, str):
            docs[target.id] = inspect.cleandoc(text).replace("\n", " ")
    return docs


def field_docs(cls: type) -> dict[str, str]:
    """Field or member name -> docstring, inherited ones included. Fields without one are left out.

    Raises `OSError` where the class's module has no source beside it.
    """
    docs: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("trajlake."):
            docs.update(_module_docs(base.__module__).get(base.__name__, {}))
    return docs
