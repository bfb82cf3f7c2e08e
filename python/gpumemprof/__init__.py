"""The import name of old for ``stormlog``: the same modules under both names."""

import sys

import stormlog
from stormlog._compat.import_alias import install

install("gpumemprof", ("stormlog",))
sys.modules[__name__] = stormlog
