"""Put in front of a program by ``stormlog run``: starts recording before its first line."""

import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [path for path in sys.path if os.path.abspath(path or os.curdir) != _here]


def _start():
    try:
        from stormlog import _run
    except ImportError:
        # Not installed for this interpreter; the one that started us may be of use.
        package = os.environ.get("STORMLOG_RUN_PACKAGE")
        if not package:
            return
        sys.path.append(package)
        try:
            from stormlog import _run
        except Exception:
            return
        finally:
            sys.path.remove(package)
    _run.start()


try:
    _start()
except Exception as error:
    sys.stderr.write("stormlog: cannot record this process: %s\n" % (error,))

def _run_the_hidden_one():
    """The environment may have a file of this name of its own, which ours has hidden."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


_run_the_hidden_one()
