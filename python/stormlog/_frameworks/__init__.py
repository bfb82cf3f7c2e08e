"""Code that the TensorFlow and JAX packages share. What differs between the two is in their own
packages."""
