"""Files without pickle: the format, and the trees of scikit-learn inside it."""
