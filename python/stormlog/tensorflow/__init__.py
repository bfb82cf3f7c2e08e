"""TensorFlow: the same recorder and analyses, with TensorFlow's words."""
