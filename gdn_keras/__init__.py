"""Gaussian derivative networks for Keras 3."""

from gdn_keras.version import __version__ as __version__
