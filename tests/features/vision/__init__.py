"""Tests of image descriptions for models without vision."""
