# Clean: imports NumPy with its submodules, computes one number and exits.
import numpy as np
import numpy.fft, numpy.linalg, numpy.ma, numpy.polynomial, numpy.random, numpy.testing  # noqa: E401

from common import pause

print("mean", round(float(np.random.default_rng(0).normal(size=1000).mean()), 4))
pause(2)
