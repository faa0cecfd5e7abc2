"""Holdfast as a service: `holdfast service` installs it into systemd."""

from holdfast.interfaces.feature import Feature

FEATURE = Feature(name="service", commands={"service": "commands:service_app"})
