"""The parser of the standard library's regular expressions, which has no public name.

`parse` gives a pattern as a tree; `op` holds the names of its nodes. Any: the tree has no types.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

op: Final[Any] = import_module("re._constants")
parse: Final[Any] = import_module("re._parser").parse
