"""Code that the TensorFlow and JAX packages share. Names and calls of each are in its own
package."""
