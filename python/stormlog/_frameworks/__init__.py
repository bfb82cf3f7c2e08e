"""What the doors to TensorFlow and JAX share; the words and the calls of each are its own."""
