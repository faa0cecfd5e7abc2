"""Backups of a data directory: `holdfast backup` while the server runs, and `holdfast restore`."""

from holdfast.interfaces.feature import Feature

FEATURE = Feature(name="backup", commands={"backup": "commands:backup", "restore": "commands:restore"})
