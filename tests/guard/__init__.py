"""Tests of the guard, with the packages that people use it with."""
